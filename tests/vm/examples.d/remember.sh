# shellcheck shell=bash
for way in $ways; do
    check "$way: a disk that remembers" serve remember size=32M
    equal "$way: its blocks have 4 KiB" "$(blockdev --getss "$node")" 4096
    holds_a_file_system
    check "$way: it ends" unserve
done
