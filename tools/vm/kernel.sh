# shellcheck shell=bash disable=SC2034,SC2154 # the files of tools/vm share variables
# Kernels by name. Each becomes a directory: `vmlinux` or `vmlinuz`, which QEMU boots, `config`,
# and `modules.img` if it has modules: an ext4 that the guest mounts.

# kernel NAME RELEASE   prints the directory of that kernel.
kernel() {
    case $1 in
    */*) kernel_of_file "$1" ;;
    6.1-ublk) kernel_of_debian_source 6.1 ;;
    v[0-9]*) kernel_of_tag "$1" ;;
    [0-9]*.[0-9]*) kernel_of_debian "$1" "$2" ;;
    *) die "no kernel is named $1" ;;
    esac
}

# A series is looked up once and then stays at what it was found to be, until the link is deleted.
kernel_of_debian() { # SERIES RELEASE
    local link=$cache/kernels/$1-$2
    made "$link" "the kernel $1 of Debian" link_newest "$1" "$2"
    readlink -f "$link"
}

link_newest() { # SERIES RELEASE LINK
    local packages dir
    packages=$(exec {lock}>"$cache/apt.lock" && flock "$lock" && newest_packages "$1" "$2")
    [ -n "$packages" ] || die "the mirror has no complete cloud kernel of series $1"
    dir=$(tr '/ ' '_+' <<<"${packages%%=*}")
    made "$cache/kernels/$dir" "${packages// / and }" fetch_kernel "$packages"
    ln -s "$dir" "$3"
}

# newest_packages SERIES RELEASE   PACKAGE=VERSION of the newest image that is whole in the mirror,
# the release's own one if it has any; with its modules' package where that is another.
newest_packages() {
    local series=${1//./\\.} found version name size
    mapfile -t found < <(
        for name in "linux-image-$1" "linux-binary-$1"; do private_apt apt-cache pkgnames "$name"; done |
            grep -E "^linux-(image|binary)-${series}[.+-][^-]*(-[0-9]+)?-cloud-amd64(-unsigned)?\$" |
            xargs -r env APT_CONFIG="$cache/apt/apt.conf" apt-cache madison |
            awk -F' *\\| *' -v own=" $2[-/]" '{ print ($3 ~ own), $2, $1 }' |
            sort -u | sort -k1,1nr -k2,2Vr
    )
    [ ${#found[@]} -gt 0 ] || return 0
    while read -r _ version name; do
        case $name in
        linux-binary-*)
            # Since 6.19 a kernel comes in parts, and old ones lose their modules first.
            if available "${name/binary/modules}" "$version" && available "${name/binary/base}" "$version"; then
                echo "$name=$version ${name/binary/modules}=$version ${name/binary/base}=$version"
                return
            fi
            ;;
        *)
            size=$(private_apt apt-cache show "$name=$version" | awk '/^Size: / && !n++ { print $2 }')
            [ "$size" -lt 1000000 ] || { echo "$name=$version" && return; } # less only names other packages
            ;;
        esac
    done < <(printf '%s\n' "${found[@]}")
}

available() { private_apt apt-cache madison "$1" | grep -F " $2 " >/dev/null; }

fetch_kernel() { # PACKAGES DIR
    local tree dir=$2 modules image config
    need depmod kmod zstd zstd xz xz-utils lz4 lz4
    tree=$(scratch)
    # shellcheck disable=SC2086 # a list
    (exec {lock}>"$cache/apt.lock" && flock "$lock" && unpack_packages "$tree" $1)
    modules=$(echo "$tree"/{usr/,}lib/modules/*)
    image=$(echo "$tree"/boot/vmlinuz-* "$modules"/vmlinuz*)
    config=$(echo "$tree"/boot/config-* "$modules"/config*)
    mkdir -p "$dir"
    cp "${config%% *}" "$dir/config"
    install_image "${image%% *}" "$dir"
    modules_image "$modules" "$dir/modules.img"
    rm -rf "$tree"
}

# install_image BZIMAGE DIR   unpacked, if QEMU can boot it so: quicker than unpacking under emulation.
install_image() {
    unpack_image "$1" >"$2/vmlinux"
    if ! LC_ALL=C grep -qaP '\x04\0\0\0[\x04\x08]\0\0\0\x12\0\0\0Xen\0' "$2/vmlinux"; then # its PVH note
        rm "$2/vmlinux"
        cp "$1" "$2/vmlinuz"
    fi
}

# unpack_image BZIMAGE   prints the ELF kernel in it. The offsets are Documentation/arch/x86/boot.rst's.
unpack_image() {
    field() { od -An -t "u$3" -j "$2" -N "$3" "$1" | tr -d ' '; }
    local sectors offset length packed
    packed=$(scratch)/payload
    sectors=$(field "$1" $((0x1f1)) 1)
    offset=$(field "$1" $((0x248)) 4)
    length=$(field "$1" $((0x24c)) 4)
    dd if="$1" of="$packed" iflag=skip_bytes,count_bytes bs=1M status=none \
        skip="$(((sectors + 1) * 512 + offset))" count="$((length - 4))"
    case $(od -An -t x1 -N 4 "$packed" | tr -d ' ') in
    28b52ffd) zstd -dc "$packed" ;;
    fd377a58) xz -dc "$packed" ;;
    1f8b*) gzip -dc "$packed" ;;
    02214c18) lz4 -dc "$packed" ;;
    *) die "$1: packed in a way not known here" ;;
    esac
    rm -rf "${packed%/*}"
}

modules_image() { # LIB-MODULES-RELEASE IMAGE
    local tree release=${1##*/} kib
    need mke2fs e2fsprogs depmod kmod
    tree=$(scratch)
    mkdir -p "$tree/lib/modules"
    cp -a "$1" "$tree/lib/modules/"
    rm -rf "$tree/lib/modules/$release"/{build,source,vmlinuz,kernel/net/{wireless,bluetooth}}
    depmod -b "$tree" "$release"
    kib=$(du -sk "$tree" | cut -f1)
    quietly "$2.log" mke2fs -q -t ext4 -O ^has_journal,^orphan_file -d "$tree/lib/modules" "$2" "$((kib * 5 / 4 + 8192))k"
    rm -rf "$tree" "$2.log"
}

# A kernel image of the caller's own, with its modules if lib/modules/RELEASE stands beside it.
kernel_of_file() {
    local file=$1 dir modules
    [ -f "$file" ] || die "no kernel image: $file"
    modules=$(echo "$(dirname "$file")"/lib/modules/*)
    dir=$cache/kernels/file-$(key "$file" "$modules" "$(stat -c %Y "${modules:-$file}")")
    made "$dir" "what is needed to boot $file" copy_kernel "$file" "$modules"
    echo "$dir"
}

copy_kernel() { # FILE MODULES DIR
    mkdir -p "$3"
    cp "$1" "$3/vmlinuz"
    [ -z "$2" ] || modules_image "$2" "$3/modules.img"
}
