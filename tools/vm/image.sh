# shellcheck shell=bash disable=SC2034,SC2154 # the files of tools/vm share variables
# The two file trees of a release: the build tree, a directory in which a checkout is compiled, and
# the guest image, a raw disk with one ext4 partition that every run reads and none writes.

root_partuuid=75626c6b-01 # MBR signature "ublk", first partition: how the kernel finds its root
image_mib=6144            # sparse; about 350 MiB of it are used

# packages FILE RELEASE   the names in a package list, with commas. "name:release" is for one release.
packages() {
    sed -E 's/#.*//; /^ *$/d' "$1" | awk -v release="$2" -F: \
        'NF == 1 || $2 == release { printf "%s%s", n++ ? "," : "", $1 }'
}

debootstrap_into() { # RELEASE PACKAGES TARGET: a directory, or a tar archive by TARGET's format
    local release=$1 include=$2 target=$3 options status=0
    options=$(mktemp)
    apt_options >"$options"
    sources "$release" |
        mmdebstrap --mode=root --variant=minbase --format="$format" --include="$include" \
            --aptopt="$options" \
            --aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
            --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
            --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/info/*' \
            "$release" "$target" - || status=$?
    rm -f "$options"
    return $status
}

make_tree() { # FORMAT RELEASE PACKAGES TARGET
    local format=$1
    need mmdebstrap mmdebstrap "$debian_keyring" debian-archive-keyring
    quietly "$4.log" debootstrap_into "$2" "$3" "$4"
}

# build_tree RELEASE   prints the directory to chroot into.
build_tree() { tree_of "$1" "the build tree of $1" "$(packages "$vm_dir/packages.build" "$1")"; }

# package_tree RELEASE   another, in which Debian packages are made.
package_tree() { tree_of "$1" "the packaging tree of $1" "$(packages "$vm_dir/packages.package" "$1")"; }

tree_of() { # RELEASE WHAT PACKAGES
    local tree
    tree=$cache/trees/$1-$(key "$3" "$(declare -f debootstrap_into)")
    made "$tree" "$2 (a few minutes, once)" make_tree directory "$1" "$3"
    echo "$tree"
}

# guest_image RELEASE PACKAGES   prints the disk image that a run of that release starts from, one that has these packages as
# well: names with commas, or nothing.
guest_image() {
    local include tar image
    include=$(packages "$vm_dir/packages.guest" "$1")${2:+,$2}
    tar=$cache/images/$1-$(key "$include" "$(declare -f debootstrap_into)").tar
    image=$cache/images/$1-$(key "${tar##*/}" "$vm_dir/image.sh" "$vm_dir"/guest/*).img
    [ -e "$image" ] ||
        made "$tar" "the guest's packages for $1 (a few minutes, once)" make_tree tar "$1" "$include"
    made "$image" "the guest image of $1" make_image "$tar"
    echo "$image"
}

make_image() { # TAR IMAGE
    local tree
    need mke2fs e2fsprogs
    tree=$(scratch)
    tar -xf "$1" -C "$tree"
    customise "$tree"
    chmod 755 "$tree"
    truncate -s "${image_mib}M" "$2"
    partition_table >"$2.mbr"
    dd if="$2.mbr" of="$2" conv=notrunc status=none
    rm -f "$2.mbr"
    # No journal: a run's writes are thrown away with its overlay, and mounting is quicker.
    quietly "$2.log" mke2fs -q -t ext4 -O ^has_journal,^orphan_file -E offset=1048576,lazy_itable_init=1 \
        -d "$tree" "$2" "$((image_mib - 1))M"
    rm -rf "$tree"
}

# One Linux partition from 1 MiB to the end.
partition_table() {
    local sectors=$(((image_mib - 1) * 2048))
    head -c 440 /dev/zero
    printf '\x6b\x6c\x62\x75\0\0'                         # the signature, little endian; reserved
    printf '\0\xfe\xff\xff\x83\xfe\xff\xff\x00\x08\0\0'   # type Linux, starts at sector 2048
    # shellcheck disable=SC2059 # the format is made of the four bytes of a number
    printf "$(printf '\\x%02x' $((sectors & 255)) $((sectors >> 8 & 255)) $((sectors >> 16 & 255)) $((sectors >> 24)))"
    head -c 48 /dev/zero
    printf '\x55\xaa'
}

# customise TREE   makes a Debian tree a guest: our files, a quick boot, logs in memory.
customise() {
    local tree=$1 unit
    install -d "$tree"/{var/lib/vmtest,usr/lib/modules,etc/systemd/system-generators}
    install -D -m 755 -t "$tree/usr/lib/vmtest" "$vm_dir"/guest/{init,main}
    install -D -m 755 -t "$tree/usr/local/bin" "$vm_dir"/guest/vm-reboot
    install -D -m 644 -t "$tree/etc/systemd/system" "$vm_dir"/guest/vmtest.{service,target}
    install -D -m 644 "$vm_dir/guest/journald.conf" "$tree/etc/systemd/journald.conf.d/vmtest.conf"
    install -D -m 644 "$vm_dir/guest/udev-trigger.conf" \
        "$tree/etc/systemd/system/systemd-udev-trigger.service.d/vmtest.conf"
    while read -r unit; do
        case $unit in
        *-generator) ln -sf /dev/null "$tree/etc/systemd/system-generators/$unit" ;;
        *) ln -sf /dev/null "$tree/etc/systemd/system/$unit" ;;
        esac
    done < <(sed -E 's/#.*//; /^ *$/d' "$vm_dir/guest/masked")
    rm -f "$tree"/usr/lib/systemd/system/multi-user.target.wants/systemd-logind.service # when asked, not at boot
    rm -f "$tree/etc/fstab"
    : >"$tree/etc/resolv.conf"
    echo vm >"$tree/etc/hostname"
    printf '127.0.0.1 localhost vm\n' >"$tree/etc/hosts"
    echo 0123456789abcdef0123456789abcdef >"$tree/etc/machine-id"
}
