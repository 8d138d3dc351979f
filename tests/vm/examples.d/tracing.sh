# shellcheck shell=bash
for way in $ways; do
    check "$way: a disk that says what is asked of it" serve tracing size=64M
    dd if=/dev/zero of="$node" bs=4k count=2 seek=3 oflag=direct conv=fsync,notrunc 2>/dev/null
    read_at $((1 << 20)) 2>/dev/null
    blkdiscard -o 0 -l 1M "$node"
    said >"$out/said"
    for line in 'write 12288+4096' 'write 16384+4096' flush 'read 1048576+4096' 'discard 0+1048576'; do
        check "$way: $line" grep -qx "$line" "$out/said"
    done
    holds_a_file_system
    check "$way: it ends" unserve
done
