# shellcheck shell=bash
mkdir /srv/example/state
chown ublk-ruby /srv/example/state
for way in $ways; do
    rm -f /srv/example/state/*
    image /srv/example/disk.img 64
    words=(path=/srv/example/disk.img limit=48M state=/srv/example/state)
    check "$way: a disk of 64 MiB of which 48 may be used" with_recovery quota "${words[@]}"
    size_is $((64 << 20))
    holds_a_file_system
    check "$way: all is given back" blkdiscard "$node"
    check "$way: 48 MiB are written" dd if=/dev/urandom of="$node" bs=1M count=48 seek=8 oflag=direct conv=notrunc
    fails "$way: and no more" 'No space left on device' write_at 0
    check "$way: what is in use can be written again" write_at $((8 << 20))
    check "$way: after a kill -9" kill_and_recover quota "${words[@]}"
    fails "$way: it is as full" 'No space left on device' write_at 0
    check "$way: 1 MiB is given back" blkdiscard -o 20M -l 1M "$node"
    check "$way: and is used elsewhere" dd if=/dev/urandom of="$node" bs=1M count=1 oflag=direct conv=notrunc
    fails "$way: then it is full" 'No space left on device' write_at $((2 << 20))
    check "$way: it ends" unserve_recoverable
done

way=hook
image /srv/example/disk.img 8
check "hook: a ledger where the service keeps it" as_hook quota path=/srv/example/disk.img limit=1M
check "hook: 1 MiB is written" dd if=/dev/urandom of="$node" bs=1M count=1 oflag=direct conv=notrunc
check "hook: after a kill -9" kill_and_recover
fails "hook: it is full" 'No space left on device' write_at $((2 << 20))
check "hook: the ledger is there" test -s /var/lib/ublk-ruby/example/quota
check "hook: it ends" end_hook
