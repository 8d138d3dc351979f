# shellcheck shell=bash disable=SC2034,SC2154 # the files of tools/vm share variables
# Debian packages of this checkout, made in a release's packaging tree from what tools/debian says.

# make_packages RELEASE SUFFIX DIR [LINTIAN]   leaves the .debs in DIR, which is there. SUFFIX goes behind the project's version.
# LINTIAN: yes, to fail at its errors and warnings; what it says is in DIR/lintian-RELEASE.log.
make_packages() {
    local tree work start=$SECONDS
    tree=$(package_tree "$1")
    work=$(scratch)
    source_package "$1" "$2" "$work/ublk-ruby"
    say "making packages for $1"
    quietly "$work/build.log" unshare --mount "$BASH" "$vm_dir/chroot-package" "$tree" "$work" "${4:-no}"
    cp "$work"/*.deb "$3"
    [ ! -e "$work/lintian.log" ] || cp "$work/lintian.log" "$3/lintian-$1.log"
    rm -rf "$work"
    say "made packages for $1 ($((SECONDS - start)) s)"
}

# source_package RELEASE SUFFIX DIR   what git knows of this checkout, with debian/ as a release needs it.
source_package() {
    local debian=$3/debian version number standards
    mkdir "$3"
    source_files | tar -C "$checkout" --null --ignore-failed-read -T - -cf - | tar -C "$3" --no-same-owner -xf -
    cp -r "$checkout/tools/debian" "$debian"
    version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$checkout/meson.build")
    # A release's packages are newer than those that the one before it has of the same version.
    case $1 in
    bookworm) number=12 standards=4.6.2 ;;
    trixie) number=13 standards=4.7.2 ;;
    esac
    sed -i "s/@MAINTAINER@/$(maintainer)/; s/@STANDARDS@/$standards/" "$debian/control"
    cat >"$debian/changelog" <<-END
		ublk-ruby ($version$2-1~deb$number) $1; urgency=medium

		  * Made by tools/package.

		 -- $(maintainer)  $(date -R -u -d "@$(source_date)")
	END
}

# source_files   what git knows; of a checkout that is none, all but builds.
source_files() {
    if git -C "$checkout" rev-parse --git-dir >/dev/null 2>&1; then
        git -C "$checkout" ls-files -z --cached
    else
        (cd "$checkout" && find . \( -path './build*' -o -path ./.git \) -prune -o -type f -print0)
    fi
}

# source_date   of the last commit: the same source makes the same packages.
source_date() { git -C "$checkout" log -1 --format=%ct 2>/dev/null || stat -c %Y "$checkout/meson.build"; }

# maintainer   whom Debian's own tools would take.
maintainer() { echo "${DEBFULLNAME:-The ublk-ruby authors} <${DEBEMAIL:-ublk-ruby@example.org}>"; }

# packaged RELEASE   prints a directory with two versions of the packages, old/ and new/, made again if anything in the
# checkout is newer than they are.
packaged() {
    local tree dir lock
    tree=$(package_tree "$1")
    dir=$cache/checkouts/$1-packages-$(key "$checkout" "$tree" "$vm_dir/chroot-package" "$vm_dir/package.sh")
    mkdir -p "$dir"
    exec {lock}>"$dir/lock"
    flock "$lock"
    if [ ! -e "$dir/made" ] || is_newer "$dir/made"; then
        touch "$dir/started"
        rm -rf "$dir/packages" && mkdir -p "$dir"/packages/{old,new}
        make_packages "$1" +1 "$dir/packages/old"
        make_packages "$1" +2 "$dir/packages/new"
        rm -f "$dir"/packages/*/*-dbgsym_*
        mv "$dir/started" "$dir/made"
    fi
    exec {lock}>&-
    echo "$dir/packages"
}
