#: what nvme-cli can ask about a controller and its namespaces is answered, and rightly
#: targets nvmfd
#: seconds 120
. "$WORK/guest/nvme-cli.sh"
target_up loop:64 ram:32
host_connect --nr-io-queues 1
until_true 10 host_disk 2 || fail "the second namespace did not come"
second=$DEV
host_disk 1
C=/dev/$CTRL
sysfs=/sys/class/nvme/$CTRL
hexadecimal() { printf '0x%x' "$1"; }

ask "^$DEV .* nvmfd .* 67\.11 +MB / +67\.11 +MB +512 +B" list
also "^$second .* 33\.55 +MB"
ask "NQN=$NQN" list-subsys
also "$CTRL rdma traddr=$TARGET_ADDR,?.*live"
ask "$CTRL|${DEV##*/}" show-topology

ask "^mdts +: 8$" id-ctrl "$C"
also "^cntlid +: $(hexadecimal "$(cat "$sysfs/cntlid")")$" "^ver +: 0x20100$" "^cntrltype +: 1$" "^oacs +: 0$" \
    "^acl +: 3$" "^aerl +: 3$" "^sqes +: 0x66$" "^cqes +: 0x44$" "^maxcmd +: 128$" "^vwc +: 0x7$" "^fuses +: 0x1$" \
    "^ioccsz +: 260$" "^iorcsz +: 1$" "^icdoff +: 0$" "^msdbd +: 16$" "^kas +: 1$" "^subnqn +: $NQN$"
expect "$(sed 's/ *$//' <"$sysfs/serial")" "$(value sn)" "serial number"
expect 1024 "$(value mnan)" "MNAN"
# Compare, Dataset Management, Write Zeroes, Save and Select, Timestamp, Verify, Copy; nothing else.
expect "$(hexadecimal $((1 << 0 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7 | 1 << 8)))" "$(value oncs)" "ONCS"
ask "^nsze +: $(hexadecimal 131072)$" id-ns "$DEV"
also "^ncap +: $(hexadecimal 131072)$" "^nlbaf +: 0$" "^nmic +: 0x1$" "^lbaf +0 : ms:0 +lbads:9 +.*\(in use\)" "^nvmcap +: 67108864$"
ask "^nsze +: $(hexadecimal 65536)$" id-ns "$C" -n 2
ask "^uuid +: $(cat "/sys/block/${DEV##*/}/uuid")$" ns-descs "$DEV"
also "^csi +: 0"
ask "^\[ *0\]:0x1$" list-ns "$C"
also "^\[ *1\]:0x2$"
ask "^\[ *0\]:0x2$" list-ns "$C" -n 2
ask "^\[ *1\]:0x2$" list-ns "$C" --all
ask "$(hexadecimal "$(cat "$sysfs/cntlid")")$" list-ctrl "$C"
ask "$(hexadecimal "$(cat "$sysfs/cntlid")")$" list-ctrl "$C" -n 1
ask "^dmrl +: 0" nvm-id-ctrl "$C"
ask "nmic:? *:? *0x1" cmdset-ind-id-ns "$C" -n 1
ask "^lbstm" nvm-id-ns "$DEV"
ask "^I/O Command Set Combination\[0\] *:(0x)?1" id-iocs "$C"
ask ": namespace-id: ?1" get-ns-id "$DEV"
deny $INVALID_FIELD id-ns-granularity "$C"
deny $INVALID_FIELD id-ns-lba-format "$C" -i 0
deny $INVALID_FIELD nvm-id-ns-lba-format "$C" -i 0
deny $INVALID_FIELD id-uuid "$C"
deny $INVALID_FIELD id-nvmset "$C"
deny $INVALID_FIELD id-domain "$C"
deny $INVALID_FIELD list-endgrp "$C"
deny $INVALID_FIELD primary-ctrl-caps "$C"
deny $INVALID_FIELD list-secondary "$C"

ask "(value|property).*[0-9a-f]7f$" get-property "$C" --offset=0
ask "version|2\.1|20100" get-property "$C" --offset=8 -H
expect_match "2\.1|20100" "$(answer)" "version"
ask "Enable +\(EN\): Yes" get-property "$C" --offset=0x14 -H
ask "Ready +\(RDY\): Yes" get-property "$C" --offset=0x1c -H
deny $INVALID_FIELD set-property "$C" --offset=8 --value=1
ask "Ready +\(RDY\): Yes" show-regs "$C" -H
also "NVM Subsystem Reset Supported +\(NSSRS\): No"
host_disconnect
all_right
