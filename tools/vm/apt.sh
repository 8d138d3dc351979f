# shellcheck shell=bash disable=SC2034,SC2154 # the files of tools/vm share variables
# Debian packages of any release, without touching this machine's own apt state.
#
# The mirror and the keyring are the ones that this machine's apt configuration names, so whatever
# makes apt work here (a mirror, a proxy, a snapshot) works for guests and kernels too.

releases=(bookworm trixie)
debian_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# apt_index FIELD...   one line per package index of Debian that this machine's apt knows.
apt_index() {
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(RELEASE) $(REPO_URI) $(SOURCESENTRY)' 'Created-By: Packages' |
        awk '{ sub(/\/$/, "", $2); print }'
}

# mirror main|security   the address this machine takes that archive from.
mirror() {
    local debian='bookworm|trixie|forky|duke|sid|oldstable|stable|testing|unstable'
    case $1 in
    main) apt_index | awk -v r="^($debian)$" '$1 ~ r { if (!n++) print $2 }' ;;
    security) apt_index | awk -v r="^($debian)-security$" '$1 ~ r { if (!n++) print $2 }' ;;
    esac
}

# keyrings   the keyrings, with commas, that the machine's Debian sources are checked with.
keyrings() {
    local entry file named
    entry=$(apt_index | awk -v m="$(mirror main)" '$2 == m { if (!n++) print $3 }')
    file=${entry%:*}
    named=$(sed -nE 's/^Signed-By:[ \t]*//p; s/.*signed-by=([^] ]+).*/\1/p' "$file" 2>/dev/null | sed -n 1p)
    if [ -f "$named" ] && [ "$named" != "$debian_keyring" ]; then
        echo "$named,$debian_keyring"
    else
        echo "$debian_keyring"
    fi
}

# sources RELEASE [backports]   the lines of a sources.list.
sources() {
    local main security signed
    main=$(mirror main) security=$(mirror security)
    [ -n "$main" ] || die "this machine's apt configuration names no Debian mirror (apt-get indextargets)"
    signed=$(keyrings)
    echo "deb [signed-by=$signed] $main $1 main"
    echo "deb [signed-by=$signed] $main $1-updates main"
    [ -z "$security" ] || echo "deb [signed-by=$signed] $security $1-security main"
    [ "${2-}" != backports ] || echo "deb [signed-by=$signed] $main $1-backports main"
}

# apt_options   this machine's settings on how to fetch and verify, in apt.conf's syntax.
apt_options() {
    apt-config dump | grep -E '^Acquire::(http|https|ftp|Check-|Retries|ForceIPv|Max-)' || true
}

# private_apt PROGRAM ARG...   apt over all releases and their backports, with lists of its own.
# Call it under a lock (made's will do): apt's own locks are off here.
private_apt() {
    local dir=$cache/apt
    if [ ! -e "$dir/ready" ]; then
        mkdir -p "$dir/lists/partial" "$dir/archives/partial" "$dir/parts"
        : >"$dir/status"
        local release
        for release in "${releases[@]}"; do sources "$release" backports; done >"$dir/sources.list"
        {
            apt_options
            cat <<-END
			Dir::Etc::parts "$dir/parts";
			Dir::Etc::main "-";
			Dir::Etc::sourcelist "$dir/sources.list";
			Dir::Etc::sourceparts "-";
			Dir::State "$dir";
			Dir::State::lists "$dir/lists";
			Dir::State::status "$dir/status";
			Dir::Cache "$dir";
			APT::Architecture "amd64";
			APT::Architectures { "amd64"; };
			APT::Sandbox::User "root";
			Acquire::Languages "none";
			Debug::NoLocking "true";
			END
        } >"$dir/apt.conf"
        say "reading the package lists of ${releases[*]}"
        quietly "$dir/update.log" env APT_CONFIG="$dir/apt.conf" apt-get update
        touch "$dir/ready"
    fi
    APT_CONFIG=$dir/apt.conf "$@"
}

# unpack_packages DIR PACKAGE=VERSION...   downloads packages and extracts them into DIR.
unpack_packages() {
    local dir=$1 debs deb
    shift
    debs=$(scratch)
    (cd "$debs" && quietly "$cache/apt/download.log" private_apt apt-get download "$@")
    mkdir -p "$dir"
    for deb in "$debs"/*.deb; do dpkg-deb -x "$deb" "$dir"; done
    rm -rf "$debs"
}
