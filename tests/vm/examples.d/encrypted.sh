# shellcheck shell=bash
# cryptsetup reads what the hook wrote, and the hook what cryptsetup wrote.
key=/etc/ublk-ruby/secrets/example
(umask 077; head -c 64 /dev/urandom >$key)
disk=(encrypted path=/srv/example/disk.img key=$key)
modprobe -a loop dm_crypt
cryptsetup_open() {
    cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 512 --key-file $key /srv/example/disk.img example
}
sums() { (cd /mnt/example && find . -type f -exec sha256sum {} + | sort); }

for way in $ways; do
    image /srv/example/disk.img 64
    check "$way: an encrypted disk" serve "${disk[@]}"
    size_is $((64 << 20))
    holds_a_file_system
    mount "$node" /mnt/example
    yes 'a line that nobody may read' 2>/dev/null | head -c 1M >/mnt/example/plain
    sum=$(sums)
    check "$way: umount" umount /mnt/example
    check "$way: it ends" unserve
    check_not "$way: what was written is not in the file" grep -qa 'nobody may read' /srv/example/disk.img

    check "$way: cryptsetup opens the same file" cryptsetup_open
    check "$way: fsck" fsck.ext4 -fn /dev/mapper/example
    check "$way: mount" mount /dev/mapper/example /mnt/example
    equal "$way: the files are the same" "$(sums)" "$sum"
    head -c 5M /dev/urandom >/mnt/example/other
    rm /mnt/example/random
    sum=$(sums)
    check "$way: umount, after some changes" umount /mnt/example
    head -c 4M /dev/mapper/example | sha256sum >"$out/begins"
    check "$way: cryptsetup closes it" cryptsetup close example

    check "$way: the disk again" with_recovery "${disk[@]}"
    equal "$way: it begins as cryptsetup says" "$(head -c 4M "$node" | sha256sum)" "$(cat "$out/begins")"
    check "$way: fsck" fsck.ext4 -fn "$node"
    check "$way: mount" mount "$node" /mnt/example
    equal "$way: the files are as cryptsetup left them" "$(sums)" "$sum"
    check "$way: umount" umount /mnt/example

    fails "$way: discards are declined" 'not supported' blkdiscard "$node"
    check "$way: zeroes are written" blkdiscard -z -l 1M "$node"
    check "$way: and read" cmp -n 1M "$node" /dev/zero
    check_not "$way: but not seen in the file" cmp -n 512 /srv/example/disk.img /dev/zero
    survives_kills 2 "${disk[@]}"
    check "$way: it ends" unserve_recoverable

    (umask 077; head -c 63 $key >$key.short; { head -c 32 $key; head -c 32 $key; } >$key.twice)
    fails "$way: a key that is too short" '64 bytes, and has 63' serve encrypted path=/srv/example/disk.img key=$key.short
    fails "$way: a key of two equal halves" 'two equal halves' serve encrypted path=/srv/example/disk.img key=$key.twice
    rm -f /srv/example/disk.img
done
rm -f $key*
