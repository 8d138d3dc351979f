# shellcheck shell=bash
a=/srv/example/a.img b=/srv/example/b.img
words=(first=$a second=$b state=/srv/example/state interval=1s)
mkdir /srv/example/state
has_everything() { until_true 60 eval 'said | grep "^mirror:" | tail -n 1 | grep -q "has everything"'; }
legs_are_equal() { sync && cmp -n $((64 << 20)) $a $b; }
# An immutable file can be read and not be written, by whoever has it open as well.
breaks() { chattr +i "$1"; }
mends() { chattr -i "$1"; }
between_kills() {
    breaks $b
    sleep 0.3
    mends $b
    if [ $((n % 2)) = 0 ]; then has_everything; fi
}

for way in $ways; do
    rm -f $a $b /srv/example/state/*
    truncate -s $(((64 << 20) + 4096)) $a $b
    chown ublk-ruby $a $b /srv/example/state
    check "$way: a mirror" with_recovery mirror "${words[@]}"
    size_is $((64 << 20))
    check "$way: the second leg becomes a copy of the first" has_everything
    holds_a_file_system
    check "$way: both legs have it" legs_are_equal

    note "$way: a leg that can't be written"
    breaks $b
    check "$way: the disk can be" dd if=/dev/urandom of="$node" bs=1M seek=10 count=4 oflag=direct conv=notrunc,fsync
    check_not "$way: the leg has nothing of it" cmp -n $((64 << 20)) $a $b
    mends $b
    check "$way: it is given what it lacks" has_everything
    check "$way: that was not all" eval 'said | grep -E "lacks ([4-9]|1[0-9]) MiB"'
    check "$way: both legs have it" legs_are_equal

    note "$way: both can't"
    breaks $a
    breaks $b
    check_not "$way: then the client hears of it" write_at $((30 << 20))
    mends $a
    mends $b
    check "$way: they come back" has_everything
    check "$way: equal" legs_are_equal

    note "$way: a leg that is away"
    check "$way: it ends" unserve_recoverable
    mv $b $b.away
    check "$way: the disk is there all the same" with_recovery mirror "${words[@]}"
    check "$way: and is written" dd if=/dev/urandom of="$node" bs=1M seek=20 count=2 oflag=direct conv=notrunc,fsync
    check "$way: it ends" unserve_recoverable
    mv $a $a.away
    mv $b.away $b
    fails "$way: the leg that was away is not served alone" 'may be older' with_recovery mirror "${words[@]}"
    mv $a.away $a
    check "$way: with the other one it is" with_recovery mirror "${words[@]}"
    check "$way: and given what it lacks" has_everything
    check "$way: both legs have it" legs_are_equal

    survives_kills 6 mirror "${words[@]}"
    check "$way: the second leg is given everything" has_everything
    check "$way: both legs have it" legs_are_equal

    note "$way: a leg that is cut off"
    drop_caches
    truncate -s 1M $a
    check "$way: the other is read" cmp -n $((64 << 20)) "$node" $b
    truncate -s 2M $b
    fails "$way: until that is gone, too" 'Input/output error' read_at $((40 << 20))
    check "$way: it ends" unserve_recoverable
done
unset -f between_kills

way=hook
rm -f $a $b
truncate -s $(((64 << 20) + 4096)) $a $b
chown ublk-ruby $a $b
check "hook: a mirror with its map where the service keeps it" as_hook mirror first=$a second=$b interval=1s
check "hook: has everything" has_everything
check "hook: the map is there" test -s /var/lib/ublk-ruby/example/mirror.map
breaks $b
check "hook: without one leg" dd if=/dev/urandom of="$node" bs=1M seek=5 count=2 oflag=direct conv=notrunc,fsync
check "hook: after a kill -9" kill_and_recover
check_not "hook: the legs differ" cmp -s -n $((64 << 20)) $a $b
check "hook: the disk has what was written" cmp -n $((64 << 20)) "$node" $a
check "hook: it is deleted" end_hook
check_not "hook: its map as well" test -e /var/lib/ublk-ruby/example
mends $b
sleep 1
started=$(date +%s)
check "hook: made anew" as_hook mirror first=$a second=$b interval=1s
check "hook: has everything" has_everything
check "hook: both legs have it" legs_are_equal
check "hook: for the older one was copied whole" eval 'said | grep "b.img lacks 64 MiB"'
check "hook: it ends" end_hook
