# shellcheck shell=bash
# A Redis of its own, on a socket and on a port. It never begins a new file by itself, since flush_waits looks at one.
redis=/srv/example/redis
mkdir -p $redis
start_redis() {
    redis-server --bind 127.0.0.1 --port 6379 --unixsocket $redis/socket --unixsocketperm 777 --dir $redis --save '' \
        --appendonly yes --appendfsync always --auto-aof-rewrite-percentage 0 >>$redis/log 2>&1 &
    redis_pid=$!
    until_true 60 eval '[ "$(ask ping)" = PONG ]' # and not that it is loading
}
stop_redis() { kill "-$1" "$redis_pid"; wait "$redis_pid" 2>/dev/null; }
ask() { redis-cli -s $redis/socket "$@"; }
chunks() { ask --scan --pattern 'disk0:*' | wc -l; }
# Redis 7.2 has WAITAOF.
can_wait() { printf '%s\n' 7.2 "$(ask info server | sed -n 's/^redis_version:\([0-9.]*\).*/\1/p')" | sort -VC; }
flushed_write() { dd if="$out/random" of="$node" bs=64k count=4 oflag=direct conv=notrunc,fsync; }
# synced_since FILE   whether Redis, traced into FILE, synced its file after its last write to it
synced_since() { awk '/ write\(/ { synced = 0 } / (fdatasync|fsync)\(/ { synced = 1 } END { exit !synced }' "$1"; }
# traced PID   whether all its threads are
traced() { ! grep -qsE '^TracerPid:[[:space:]]*0$' /proc/"$1"/task/*/status; }
# With appendfsync everysec.
flush_waits() {
    strace -f -e trace=write,fsync,fdatasync -e quiet=attach -o "$out/strace" -P "$(readlink -f $redis/appendonlydir/*.incr.aof)" -p "$redis_pid" &
    strace_pid=$!
    until_true 20 traced "$redis_pid" # with the thread that syncs
    check "$way: a flush" flushed_write
    cp "$out/strace" "$out/strace-then"
    check "$way: has waited for fdatasync" synced_since "$out/strace-then"
    kill "$strace_pid"
    wait "$strace_pid" 2>/dev/null
}

check "a Redis" start_redis
for way in $ways; do
    url=unix://$redis/socket
    [ "$way" = program ] || url=redis://127.0.0.1:6379
    disk=(redis_disk "url=$url" name=disk0 timeout=20s)
    fails "$way: there is no disk yet" 'redis-cli set disk0 BYTES' serve "${disk[@]}"
    ask set disk0 $((64 << 20)) >/dev/null
    check "$way: a disk in Redis" with_recovery "${disk[@]}"
    size_is $((64 << 20))
    holds_a_file_system
    check "$way: there are $(chunks) chunks" test "$(chunks)" -gt 10
    check "$way: blkdiscard" blkdiscard "$node"
    equal "$way: removes all of them" "$(chunks)" 0
    kills_mib=4 survives_kills 2 "${disk[@]}" # Redis syncs each write

    head -c 1M /dev/urandom >"$out/random"
    check "$way: 1 MiB is written" dd if="$out/random" of="$node" bs=64k oflag=direct conv=notrunc,fsync
    stop_redis KILL
    fails "$way: without Redis a read fails" 'Link has been severed' read_at 0
    check "$way: Redis is started again" start_redis
    check "$way: and has what was flushed" cmp -n 1M "$out/random" "$node"
    check "$way: the next flush succeeds, for everything was synced at once" flushed_write

    ask config set appendfsync everysec >/dev/null
    if can_wait; then flush_waits; else fails "$way: this Redis has to sync always" 'Remote I/O error' flushed_write; fi
    ask config set appendfsync no >/dev/null
    fails "$way: where Redis never syncs a flush fails" 'Remote I/O error' flushed_write
    ask config set appendfsync always >/dev/null

    ask config set maxmemory 1 >/dev/null
    fails "$way: where Redis is full a write fails" 'No space left' write_at 4096
    ask config set maxmemory 0 >/dev/null
    check "$way: and then succeeds" write_at 4096

    ask flushall >/dev/null
    fails "$way: a Redis that was emptied is an error, not zeroes" 'Remote I/O error' read_at 0
    check "$way: and the reason is told" eval 'said | grep -F "Redis has lost the disk disk0"'
    check "$way: it ends" unserve_recoverable
done
stop_redis TERM
