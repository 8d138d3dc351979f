# shellcheck shell=bash
for way in $ways; do
    image /srv/example/disk.img 64
    check "$way: a disk in a file" with_recovery file_disk path=/srv/example/disk.img
    size_is $((64 << 20))
    holds_a_file_system
    check "$way: the file is the disk" cmp "$node" /srv/example/disk.img
    check "$way: blkdiscard" blkdiscard "$node"
    equal "$way: makes a hole of it" "$(du -k /srv/example/disk.img | cut -f1)" 0
    survives_kills 3 file_disk path=/srv/example/disk.img

    note "$way: the file is cut off under it"
    truncate -s 32M /srv/example/disk.img
    fails "$way: what is gone is an error" 'Input/output error' read_at $((40 << 20))
    check "$way: what is there is served" read_at $((16 << 20))
    check "$way: it ends" unserve_recoverable
done
