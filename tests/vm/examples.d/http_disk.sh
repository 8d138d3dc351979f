# shellcheck shell=bash
# A file system on a server on this machine, which misbehaves as a file tells it to.
web=/srv/example/web
port=8080
mkdir -p $web
truncate -s 32M $web/disk.img
mkfs.ext4 -q -d /usr/lib/ublk-ruby $web/disk.img
start_server() {
    ruby -w examples.d/http_server.rb $web/disk.img $port $web/mode $web/log 2>$web/errors &
    server=$!
    until_true 20 eval "(: </dev/tcp/127.0.0.1/$port)"
}
stop_server() { kill "$server"; wait "$server" 2>/dev/null; }
connections() { grep -c '^connection' $web/log; }
# misbehave MODE ERROR TEXT   a read fails with ERROR while the server does that, and the disk's server says TEXT
misbehave() {
    echo "$1" >$web/mode
    fails "$way: while the server is '$1' a read fails" "$2" read_at $((8 << 20))
    rm $web/mode
    check "$way: and the reason is told: $3" eval 'said | grep -F -- "'"$3"'"'
    check "$way: and then it succeeds" read_at $((8 << 20))
}

check "a server" start_server
for way in $ways; do
    disk=(http_disk "url=http://127.0.0.1:$port/disk.img" timeout=3s)
    check "$way: a disk over HTTP" with_recovery "${disk[@]}"
    size_is $((32 << 20))
    fails "$way: it can't be written" 'not permitted' write_at 0
    check "$way: mount" mount -o ro,noload "$node" /mnt/example
    check "$way: its files are those of the image" diff -r --exclude lost+found /mnt/example /usr/lib/ublk-ruby
    check "$way: umount" umount /mnt/example
    check "$way: every byte is the image's" cmp "$node" $web/disk.img
    # A program's queue has another thread than the one that made the disk.
    check "$way: $(grep -c '^request' $web/log) requests over $(connections) connection(s)" test "$(connections)" -le 2

    misbehave whole 'Remote I/O error' 'the server ignores Range'
    misbehave 500 'Remote I/O error' 'the server says 500'
    misbehave less 'Remote I/O error' 'the server sent bytes 8388608-8392695/33554432 for 4096 bytes'
    misbehave changed 'Remote I/O error' 'the server has another image'
    misbehave drop 'Link has been severed' 'end of file reached'
    misbehave silent 'Connection timed out' 'was silent for 3.0 s'

    stop_server
    fails "$way: without the server a read fails" 'Link has been severed' read_at $((8 << 20))
    check "$way: the server comes back" start_server
    check "$way: and so does the disk" read_at $((8 << 20))
    check "$way: kill -9, and it is recovered" kill_and_recover "${disk[@]}"
    drop_caches
    check "$way: every byte is the image's" cmp "$node" $web/disk.img
    check "$way: it ends" unserve_recoverable

    echo whole >$web/mode
    fails "$way: a server that ignores Range makes no disk" 'ignores Range' serve "${disk[@]}"
    rm $web/mode
    : >$web/log
done
stop_server
check_not "the server had nothing to complain about" grep . $web/errors
