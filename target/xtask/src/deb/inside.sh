# What is done with the package in a fresh Debian 12. The last line says whether all was well; what
# fails says where, and ends it.
set -eEuo pipefail
trap 'echo "FAILED at line $LINENO: $BASH_COMMAND"; journalctl -u nvmfd --no-pager -n 30 || true' ERR
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
NQN=nqn.2026-11.io.nvmfd:package

step() { echo "-- $*"; }
# Every file with its owner, mode and, in /etc, its text. Left out is what any package changes:
# dpkg's and apt's own files, logs, caches, and copies that are kept of accounts.
files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path /root \
        -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/log -o -path /var/cache \
        -o -path /var/tmp -o -path /var/lib/systemd \) -prune -o ! -name '*-' -printf '%p %u %m %y\n' |
        sort
    find /etc -xdev -type f ! -name '*-' ! -name resolv.conf ! -name machine-id -print0 |
        sort -z | xargs -0 sha256sum
}
same() { diff "$1" "$2" && echo "   nothing is left"; }
host() { nvmf-host --provider soft --nqn $NQN --address 127.0.0.1 "$@"; }

ip link set lo up
files >/root/before

step "install"
dpkg -i /root/nvmfd.deb
test "$(systemctl is-enabled nvmfd)" = enabled
test "$(systemctl is-active nvmfd || true)" = inactive
nvmfd --version

step "the unit is well-formed"
systemd-analyze verify --man=no /usr/lib/systemd/system/nvmfd.service
systemd-analyze security --no-pager nvmfd.service | tail -1

step "without a configuration it is not started, and does not fail"
systemctl start nvmfd
test "$(systemctl is-active nvmfd || true)" = inactive

step "start"
cat >/etc/nvmfd/nvmfd.toml <<TOML
# This comment stays.
listener = [{ address = "127.0.0.1:4420", provider = "soft" }]
[[subsystem]]
nqn = "$NQN"
allow_any_host = true
[[subsystem.namespace]]
path = "/var/lib/nvmfd/disk.img"
size = "64MiB"
TOML
chgrp nvmfd /etc/nvmfd/nvmfd.toml && chmod 664 /etc/nvmfd/nvmfd.toml
systemctl start nvmfd
test "$(systemctl is-active nvmfd)" = active
pid=$(systemctl show -p MainPID --value nvmfd)
test "$(ps -o user= -p "$pid")" = nvmfd
grep -E '^Cap(Eff|Amb)' /proc/"$pid"/status | awk '$2 !~ /^0+$/ { exit 1 }'
echo "   runs as nvmfd, without a capability"

step "use"
nvmfd status
host discover
host verify --nsid 1 --size 16MiB
nvmfd add namespace $NQN --ram 32MiB --save
grep -q 'This comment stays' /etc/nvmfd/nvmfd.toml && grep -q 32MiB /etc/nvmfd/nvmfd.toml
host verify --nsid 2 --size 16MiB
systemctl reload nvmfd
nvmfd list namespaces

step "a daemon with a data core that hangs is started again"
mkdir -p /run/systemd/system/nvmfd.service.d
printf '[Service]\nWatchdogSec=2\n' >/run/systemd/system/nvmfd.service.d/quick.conf
systemctl daemon-reload
systemctl restart nvmfd
sleep 5
test "$(systemctl show -p NRestarts --value nvmfd)" = 0
pid=$(systemctl show -p MainPID --value nvmfd)
for task in /proc/"$pid"/task/*; do
    if [ "$(cat "$task/comm")" = core-1 ]; then core=${task##*/}; fi
done
# This thread alone stands still while somebody holds it; the others go on.
test "$(uname -m)" = x86_64
perl -e 'syscall(101, 16, $ARGV[0] + 0, 0, 0) == 0 or die "cannot hold it: $!"; sleep 60' "$core" &
holder=$!
for _ in $(seq 100); do
    if journalctl -u nvmfd --no-pager | grep -q 'Watchdog timeout'; then break; fi
    sleep 0.2
done
journalctl -u nvmfd --no-pager | grep -o 'a data core hangs.*'
# A thread that is held cannot end, and its process with it.
kill $holder
for _ in $(seq 100); do
    restarts=$(systemctl show -p NRestarts --value nvmfd)
    test "$restarts" = 0 || break
    sleep 0.2
done
test "$restarts" = 1
for _ in $(seq 50); do
    test "$(systemctl is-active nvmfd)" != active || break
    sleep 0.2
done
host verify --nsid 1 --size 1MiB
rm -r /run/systemd/system/nvmfd.service.d
systemctl daemon-reload

step "upgrade while it serves"
dpkg -i /root/nvmfd.deb
test "$(systemctl is-active nvmfd)" = active
grep -q 'This comment stays' /etc/nvmfd/nvmfd.toml

step "the scripts that prepare a kernel come with it"
/usr/lib/nvmfd/kernel-setup/memlock.sh
/usr/lib/nvmfd/kernel-setup/memlock.sh --undo

step "remove: the daemon goes, the configuration stays"
dpkg -r nvmfd
test "$(systemctl is-active nvmfd || true)" = inactive
test ! -e /usr/bin/nvmfd
test -e /etc/nvmfd/nvmfd.toml

step "purge: data that was exported stays, and its owner"
dpkg --purge nvmfd
files >/root/after
diff /root/before /root/after | grep -E '^[<>] /' | grep -v -E '^[<>] /(etc|$)' || true
test -e /var/lib/nvmfd/disk.img
test ! -e /etc/nvmfd

step "install and purge without data: nothing stays"
dpkg -i /root/nvmfd.deb
rm /var/lib/nvmfd/disk.img
dpkg --purge nvmfd
files >/root/after
same /root/before /root/after

trap - ERR
echo "all as it should be"
