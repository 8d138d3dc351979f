# shellcheck shell=bash disable=SC2034,SC2154 # the files of tools/vm share variables
# Builds this checkout for a release, in that release's build tree, and keeps the result as a tar
# archive of what `meson install` puts into place. Nothing is written into the checkout.

# installed RELEASE   prints the archive, made again if anything in the checkout is newer than it.
installed() {
    local tree build lock start=$SECONDS
    tree=$(build_tree "$1")
    build=$cache/checkouts/$1-$(key "$checkout" "$tree" "$vm_dir/chroot-build")
    mkdir -p "$build"
    exec {lock}>"$build/lock"
    flock "$lock"
    if [ ! -e "$build/install.tar" ] || is_newer "$build/install.tar"; then
        touch "$build/started" # before the sources are read: what changes meanwhile is newer
        if [ -e "$checkout/meson.build" ]; then
            quietly "$build/build.log" unshare --mount "$BASH" "$vm_dir/chroot-build" "$tree" "$checkout" "$build"
        else
            say "$checkout has no meson.build: the guest gets no build"
            rm -rf "$build/dest" && mkdir "$build/dest"
        fi
        tar -cf "$build/install.tar.new" --owner=0 --group=0 -C "$build/dest" .
        touch -r "$build/started" "$build/install.tar.new"
        mv "$build/install.tar.new" "$build/install.tar"
        say "built $checkout for $1 ($((SECONDS - start)) s)"
    fi
    exec {lock}>&-
    echo "$build/install.tar"
}

is_newer() {
    [ -n "$(find "$checkout" \( -path "$checkout/.git" -o -path "$checkout/build*" \) -prune -o -newer "$1" -print -quit)" ]
}
