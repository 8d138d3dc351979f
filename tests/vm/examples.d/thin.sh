# shellcheck shell=bash
file=/srv/example/thin.img
used() { du -m "$file" | cut -f1; } # MiB
# Behind what fio writes.
between_kills() {
    blkdiscard -f -o 64M -l 4M "$node"
    dd if=/dev/urandom of="$node" bs=1M seek=64 count=4 oflag=direct conv=notrunc 2>/dev/null
}

for way in $ways; do
    : >$file
    chown ublk-ruby $file
    check "$way: a disk of a terabyte" with_recovery thin path=$file size=1T
    size_is $((1 << 40))
    check "$way: its last block is written" write_at $(((1 << 40) - 4096))
    check "$way: and read" read_at $(((1 << 40) - 4096))
    check "$way: the file has $(used) MiB" test "$(used)" -le 1
    check "$way: blkdiscard" blkdiscard "$node"
    check "$way: it ends" unserve_recoverable

    : >$file
    check "$way: a disk of 16 GiB" with_recovery thin path=$file size=16G
    holds_a_file_system
    before=$(used)
    check "$way: the file has $before MiB" test "$before" -lt 300
    mount "$node" /mnt/example
    rm -r /mnt/example/*
    sync -f /mnt/example
    fstrim /mnt/example
    umount /mnt/example
    check "$way: what is trimmed is given back: $before, then $(used) MiB" test "$(used)" -lt $((before - 2))
    survives_kills 5 thin path=$file size=16G
    check "$way: blkdiscard" blkdiscard "$node"
    check "$way: it is empty" test "$(used)" -le 1
    check "$way: it ends" unserve_recoverable

    note "$way: the space that the file has comes to an end"
    mount -t tmpfs -o size=8M tmpfs /srv/example
    chown ublk-ruby /srv/example
    : >$file
    chown ublk-ruby $file
    check "$way: a disk of 1 GiB in 8 MiB" serve thin path=$file size=1G
    fails "$way: is full some time" 'No space left on device' dd if=/dev/zero of="$node" bs=1M count=16 oflag=direct conv=notrunc
    check "$way: is as before where it was written" cmp -n $((4 << 20)) /dev/zero "$node"
    check "$way: gives back" blkdiscard "$node"
    check "$way: and is used again" dd if=/dev/zero of="$node" bs=1M count=4 seek=100 oflag=direct conv=notrunc,fsync
    check "$way: it ends" unserve
    umount /srv/example
done
unset -f between_kills
