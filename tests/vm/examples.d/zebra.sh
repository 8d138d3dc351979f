# shellcheck shell=bash
ruby -e '2048.times { |n| $stdout.write((n.even? ? "\0" : "\xff") * 512) }' >"$out/stripes"
for way in $ways; do
    check "$way: a disk of stripes" serve zebra size=1M
    check "$way: it is striped" cmp "$node" "$out/stripes"
    fails "$way: and can't be written" 'not permitted' write_at 0
    check "$way: it ends" unserve
done
