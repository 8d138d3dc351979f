# shellcheck shell=bash disable=SC2154 # sourced by ../floor
# What the first gem got wrong, and what else the library promises.

note "6. the end of a program"
check "a disk" serve size=$((16 << 20))
kill -INT "$pid"
check "run returns on SIGINT" wait "$pid"
equal "and has stopped it" "$(tail -n 1 "$out/serve.out")" "ended stopped"
check "the disk is deleted at exit" gone

check "a disk" serve size=$((16 << 20)) term=stop fork=yes
check "a child that came and went took nothing with it" dd if="$node" of=/dev/null bs=4k count=1 iflag=direct
kill -TERM "$pid"
check "run returns on stop in another thread" wait "$pid"
equal "and has stopped it" "$(tail -n 1 "$out/serve.out")" "ended stopped"
check "the disk is deleted at exit" gone

check "a disk" serve size=$((16 << 20))
kill -TERM "$pid"
check_not "SIGTERM ends the program as ever" wait "$pid"
check "the disk is deleted at exit" gone

truncate -s 16M /srv/floor.img
check "a disk with recovery" serve file=/srv/floor.img recovery=yes queues=2
head -c 1M /dev/urandom >"$out/payload"
dd if="$out/payload" of="$node" bs=64k conv=notrunc 2>/dev/null
kill -INT "$pid"
check "its program ends cleanly" wait "$pid"
equal "and has handed it over" "$(tail -n 1 "$out/serve.out")" "ended handed_over"
check "the disk is still there" test -b "$node"
(cmp -n $((1 << 20)) "$out/payload" "$node" >"$out/compared" 2>&1; echo $? >>"$out/compared") &
reader=$!
check_not "it is not recovered by a target of another size" serve file=/srv/floor.img size=$((8 << 20)) "recover=$id"
check "which says so" grep -q 'size was 16777216 and now would be 8388608' "$out/serve.err"
id=$(ruby_says 'puts UBLK::Device.list.map(&:id)')
check "it is recovered by the right one" serve file=/srv/floor.img "recover=$id" delete=yes
wait $reader
equal "a reader that waited has every byte" "$(cat "$out/compared")" 0
kill -INT "$pid"
check "and deleted by its program" wait "$pid"
equal "which had handed it over first" "$(tail -n 1 "$out/serve.out")" "ended deleted"
check "the nodes are gone" gone

note "7. errors"
for errno in 0 4096 99999 -5 11 28; do
    check "a disk whose bad range raises errno $errno" serve size=$((16 << 20)) bad=$((4 << 20))-$((5 << 20)) "errno=$errno"
    case $errno in 28) want='No space left' ;; *) want='Input/output error' ;; esac
    fails "a read there fails" "$want" dd if="$node" of=/dev/null bs=4k skip=1024 count=1 iflag=direct
    check "the thread serves on" timeout 10 dd if="$node" of=/dev/null bs=4k count=1 iflag=direct
    check "and so does a write of it" timeout 10 dd if=/dev/zero of="$node" bs=4k count=1 oflag=direct
    kill -INT "$pid"
    wait "$pid"
    check "it was told on standard error" grep -q "ublkb$id: read of 4096 bytes at 4194304 failed" "$out/serve.err"
done

note "8. others' devices"
check "another program's device" /usr/lib/ublk-ruby/test-foreign add 5
check "one of the service" create disk0 memory 1 size t $((16 << 20))
check "one of the library, whose program dies" serve size=$((16 << 20)) recovery=yes
kill -9 "$pid"
wait "$pid" 2>/dev/null
equal "all are listed" "$(ruby_says 'puts UBLK::Device.list.size')" 3
fails "a foreign one is not recovered" 'another program made it' \
    ruby -rublk -r./library/floor_disk -e 'UBLK::Device.recover(FloorDisk.new(size: 1 << 24), id: 5)'
check "delete_all!" ruby -w -rublk -e 'UBLK::Device.delete_all!'
equal "only the library's own is gone" "$(ruby_says 'puts UBLK::Device.list.map(&:tag).count { |tag| tag >> 32 == UBLK::DeviceInfo::TAG_MAGIC }')" 0
equal "the others are there" "$(ruby_says 'puts UBLK::Device.list.size')" 2
check "DeleteDevice" delete disk0
check "the other program's too" /usr/lib/ublk-ruby/test-foreign delete 5

note "9. in one program"
check "several devices, threads that raise, a target that stops its own disk" timeout 120 ruby -w library/program.rb
sed 's/^/# /' "$last"

note "10. a disk that is handed over while it is read"
check "40 times" timeout 300 ruby -w library/handover.rb 40
