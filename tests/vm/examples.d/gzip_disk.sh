# shellcheck shell=bash
image=/srv/example/disk.img
truncate -s 40M $image
mkfs.ext4 -q -d /usr/lib/ublk-ruby $image
# Two members: as pieces that were packed one by one.
{ head -c 17M $image | gzip -1; tail -c +$(((17 << 20) + 1)) $image | gzip -1; } >$image.gz
chown ublk-ruby $image.gz
for way in $ways; do
    check "$way: a disk that is packed in $(stat -c %s $image.gz) bytes" with_recovery gzip_disk path=$image.gz
    size_is $((40 << 20))
    fails "$way: it can't be written" 'not permitted' write_at 0
    check "$way: mount" mount -o ro,noload "$node" /mnt/example
    check "$way: its files are those of the image" diff -r --exclude lost+found /mnt/example /usr/lib/ublk-ruby
    check "$way: umount" umount /mnt/example
    check "$way: every byte is the image's" cmp "$node" $image
    check "$way: fio reads it here and there" fio --name=random --filename="$node" --readonly --direct=1 --rw=randread --bs=4k-64k \
        --io_size=4M --ioengine=io_uring --iodepth=4
    check "$way: kill -9, and it is recovered" kill_and_recover gzip_disk path=$image.gz
    drop_caches
    check "$way: every byte is the image's" cmp "$node" $image

    cp -p $image.gz $image.gz.good
    printf '\0\0\0\0' | dd of=$image.gz bs=1 seek=5000 conv=notrunc 2>/dev/null
    fails "$way: once the file has changed a read fails" 'Input/output error' read_at $((20 << 20))
    check "$way: and the reason is told" eval 'said | grep -F "has changed since the disk was made"'
    check "$way: it ends" unserve_recoverable
    fails "$way: no disk is made of what is damaged" "$image.gz: " serve gzip_disk path=$image.gz
    head -c 100000 $image.gz.good >$image.gz
    fails "$way: nor of a part" 'ends in the middle of its data' serve gzip_disk path=$image.gz
    cp -p $image.gz.good $image.gz
done
