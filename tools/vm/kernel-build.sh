# shellcheck shell=bash disable=SC2034,SC2154 # the files of tools/vm share variables
# Kernels made from source with kernel.config: ublk built in, no modules, a few minutes of compiling.

# kernel_of_debian_source SERIES   from Debian's package linux-source-SERIES.
kernel_of_debian_source() {
    local link
    link=$cache/kernels/source-$1-$(key "$vm_dir/kernel.config")
    made "$link" "the kernel $1 from Debian's source" build_debian_source "$1"
    echo "$link"
}

build_debian_source() { # SERIES DIR
    local tree
    need xz xz-utils
    tree=$(scratch)
    (exec {lock}>"$cache/apt.lock" && flock "$lock" && unpack_packages "$tree" "linux-source-$1")
    mkdir "$tree/source"
    tar -xf "$tree/usr/src/linux-source-$1.tar.xz" -C "$tree/source" --strip-components=1
    build_source "$tree/source" "$2"
    rm -rf "$tree"
}

# kernel_of_tag TAG   from the git tree $UBLK_LINUX_TREE, which is only read.
kernel_of_tag() {
    local commit dir
    [ -n "${UBLK_LINUX_TREE-}" ] || die "UBLK_LINUX_TREE must name a git tree of Linux that has $1"
    commit=$(git -C "$UBLK_LINUX_TREE" rev-parse -q --verify "$1^{commit}") || die "$UBLK_LINUX_TREE has no $1"
    dir=$cache/kernels/$1-$(key "$commit" "$vm_dir/kernel.config")
    made "$dir" "the kernel $1 from $UBLK_LINUX_TREE" build_commit "$commit"
    echo "$dir"
}

build_commit() { # COMMIT DIR
    local tree
    tree=$(scratch)
    git -C "$UBLK_LINUX_TREE" archive "$1" | tar -xf - -C "$tree"
    build_source "$tree" "$2"
    rm -rf "$tree"
}

build_source() { # SOURCE DIR
    local source=$1 dir=$2 log=$2.log make
    need gcc gcc make make flex flex bison bison bc bc perl perl \
        /usr/include/libelf.h libelf-dev /usr/include/openssl/ssl.h libssl-dev
    make=(nice make -C "$source" -j "$(nproc)" KBUILD_BUILD_USER=vmtest KBUILD_BUILD_HOST=vmtest)
    quietly "$log" "${make[@]}" KCONFIG_ALLCONFIG="$vm_dir/kernel.config" allnoconfig
    grep -qx CONFIG_BLK_DEV_UBLK=y "$source/.config" || die "this source has no ublk"
    say "compiling it, at low priority (log: $log)"
    quietly "$log" "${make[@]}" vmlinux
    mkdir -p "$dir"
    cp "$source/.config" "$dir/config"
    cp "$source/vmlinux" "$dir/vmlinux"
}
