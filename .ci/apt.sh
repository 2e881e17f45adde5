# shellcheck shell=sh
# How the other scripts here install Debian's packages; to be sourced.
# Another apt may be at work, such as the daily update of a new machine: its locks are waited for. The lists and the
# archives have locks that no option of apt-get waits for.
APT_PATIENCE=${APT_PATIENCE:-900} # seconds
apt_said=''

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

# apt_get WORD...: runs apt-get as root, again as long as another one holds a lock; what it printed last is in $apt_said.
apt_get() {
    apt_until=$(($(date +%s) + APT_PATIENCE))
    while :; do
        apt_said=$(as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -q -o "DPkg::Lock::Timeout=$APT_PATIENCE" \
            "$@" 2>&1 </dev/null) && return 0
        case $apt_said in
        *"Could not get lock"* | *"Unable to lock"* | *"Unable to acquire the dpkg frontend lock"*) ;;
        *) return 1 ;;
        esac
        [ "$(date +%s)" -lt "$apt_until" ] || return 1
        sleep 1
    done
}

apt_install() {
    apt_get update && apt_get install -y --no-install-recommends "$@"
}

# The end of what apt-get printed, for a message: the lines that name an error, or else the last one.
apt_error() {
    printf '%s\n' "$apt_said" | grep '^E: ' || printf '%s\n' "$apt_said" | tail -n 1
}
