# shellcheck shell=bash
for way in $ways; do
    check "$way: a stack of layers" serve freeze size=8M
    check "$way: it can be written" write_at 4096
    touch /run/freeze
    fails "$way: while it is frozen it can't" 'error' write_at 4096
    check "$way: but read" read_at 4096
    rm /run/freeze
    check "$way: then it thaws" write_at 4096
    check "$way: it ends" unserve
done
