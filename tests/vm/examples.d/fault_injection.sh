# shellcheck shell=bash
for way in $ways; do
    check "$way: a disk with a bad spot" serve fault_injection size=64M bad_at=32M bad_length=1M
    fails "$way: it can't be read there" 'Input/output error' read_at $((32 << 20))
    fails "$way: nor written" 'Input/output error' write_at $(((33 << 20) - 4096))
    check "$way: beside it, it can be" write_at $(((32 << 20) - 4096))
    badblocks -b 4096 "$node" >"$out/bad" 2>/dev/null
    equal "$way: badblocks finds the whole of it" "$(cat "$out/bad")" "$(seq 8192 8447)"
    check "$way: mkfs.ext4 keeps off it" mkfs.ext4 -q -l "$out/bad" -b 4096 "$node"
    check "$way: mount" mount "$node" /mnt/example
    check "$way: every other block is filled" eval 'dd if=/dev/urandom of=/mnt/example/file bs=64k count=640 conv=fsync'
    check "$way: umount" umount /mnt/example
    check "$way: it ends" unserve
done
