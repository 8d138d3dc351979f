# shellcheck shell=bash
for way in $ways; do
    check "$way: a disk in memory" serve ram_disk size=96M
    size_is $((96 << 20))
    holds_a_file_system
    head -c 1M /dev/urandom >"$out/random"
    check "$way: 1 MiB is written across the largest request" \
        dd if="$out/random" of="$node" bs=1M seek=$((524288 - 4096)) oflag=direct,seek_bytes conv=notrunc,fsync
    check "$way: and comes back" cmp -n 1M -i 0:$((524288 - 4096)) "$out/random" "$node"
    check "$way: blkdiscard" blkdiscard -o 4k -l 32M "$node"
    check "$way: what was discarded is zeroes" cmp -n 32M -i 0:4096 /dev/zero "$node"
    check "$way: it ends" unserve
done

check "it is a hook once more" as_hook ram_disk size=8M
kill -9 "$(worker_pid)"
check "a worker that dies takes the disk with it" until_true 20 eval '[ ! -e "$node" ] && systemctl is-failed "$unit"'
check "which is then deleted" end_hook
