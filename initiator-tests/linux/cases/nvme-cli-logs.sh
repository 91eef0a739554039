#: nvme-cli reads every log page that is offered, with values that are true, and is refused the others
#: targets nvmfd
#: seconds 120
. "$WORK/guest/nvme-cli.sh"
target_up loop:64
host_connect --nr-io-queues 1
C=/dev/$CTRL

ask "LID 0(x0)?[^0-9a-fx]" supported-log-pages "$C"
for page in 0x1 0x2 0x3 0x4 0x5 0x12 0x13; do also "LID $page[^0-9a-f]"; done

# 64 MiB read and 32 MiB written are 132 and 66 units of 512,000 bytes, rounded up.
units() { nvme smart-log "$C" | sed -n "s/^[Dd]ata [Uu]nits $1[[:space:]]*:[[:space:]]*\([0-9,]*\).*/\1/p" | tr -d ,; }
read_before=$(units Read) written_before=$(units Written)
dd if="$DEV" of=/dev/null bs=1M count=64 iflag=direct status=none
dd if=/dev/zero of="$DEV" bs=1M count=32 oflag=direct status=none
ask "^critical_warning[[:space:]]*: 0" smart-log "$C"
also "^available_spare[[:space:]]*: 100%" "^percentage_used[[:space:]]*: 0%" "^media_errors[[:space:]]*: 0"
grew() {
    (($2 - $1 >= $3 && $2 - $1 <= $3 + 3)) || fail "data units: $1 before, $2 after, for $3"
    row "$1, then $2" "smart-log: units $4"
}
grew "$read_before" "$(units Read)" 131 "of 64 MiB read"
grew "$written_before" "$(units Written)" 65 "of 32 MiB written"
ask "^critical_warning[[:space:]]*: 0" smart-log "$C" -n 1

# The newest error is what was refused last; the page itself, since some versions
# of nvme-cli print the log to a terminal only.
deny $INVALID_OPCODE admin-passthru "$C" --opcode=0xc7
nvme get-log "$C" --log-id=1 --log-len=64 --raw-binary >"$OUT/errors"
at() { od -An -tu"$2" -j"$1" -N"$2" "$OUT/errors" | tr -d ' '; }
(($(at 0 8) > 0)) || fail "the error log is empty"
expect 0 "$(at 8 2)" "queue of the newest error"
expect 1 "$((($(at 12 2) >> 1) & 0x7ff))" "status of the newest error"
row "error $(at 0 8): queue $(at 8 2), status field $(at 12 2)" get-log "$C" --log-id=1
ask "" error-log "$C" -e 1

# The page itself here too.
ask "" effects-log "$C"
nvme get-log "$C" --log-id=5 --log-len=4096 --raw-binary >"$OUT/effects"
supported() { echo $(($(od -An -tu4 -j$(($1 * 4)) -N4 "$OUT/effects") & 1)); }
for opcode in 0x02 0x06 0x08 0x09 0x0a 0x0c 0x18 $((256 + 0)) $((256 + 1)) $((256 + 2)) $((256 + 5)) $((256 + 8)) $((256 + 9)) $((256 + 12)) $((256 + 25)); do
    expect 1 "$(supported "$opcode")" "effects of opcode $opcode"
done
for opcode in 0x00 0x0d 0x80 0x84 $((256 + 4)) $((256 + 13)); do
    expect 0 "$(supported "$opcode")" "effects of opcode $opcode"
done

ask "frs1 *: 0x[0-9a-f]+ \([0-9.]+\)" fw-log "$C"
ask "" changed-ns-list-log "$C"
# The host has read the list already, and nothing has changed since.
nvme get-log "$C" --log-id=4 --log-len=4096 --raw-binary | cmp -s -n 4096 - /dev/zero || fail "the list of changed namespaces is not empty"
ask "" fid-support-effects-log "$C"
nvme get-log "$C" --log-id=0x12 --log-len=1024 --raw-binary >"$OUT/features"
for feature in 1 2 4 5 6 7 10 11 14 15 22 25 129; do
    expect 1 "$(($(od -An -tu4 -j$((feature * 4)) -N4 "$OUT/features") & 1))" "feature $feature is supported"
done
ask "" mi-cmd-support-effects-log "$C"

# In parts: dwords of a page are the same however they are read.
nvme get-log "$C" --log-id=5 --log-len=512 --lpo=1024 --raw-binary | cmp - <(dd if="$OUT/effects" bs=512 skip=2 count=1 status=none)

deny $INVALID_LOG_PAGE self-test-log "$C"
deny $INVALID_LOG_PAGE endurance-log "$C" -g 1
deny $INVALID_LOG_PAGE resv-notif-log "$C"
deny $INVALID_LOG_PAGE sanitize-log "$C"
deny $INVALID_LOG_PAGE media-unit-stat-log "$C"
deny $INVALID_LOG_PAGE supported-cap-config-log "$C"
for page in 0x07 0x08 0x0a 0x0b 0x0c 0x0d 0x0e 0x0f 0x14 0x15 0x16 0x70 0x80 0x81 0xbf 0xc0; do
    deny $INVALID_LOG_PAGE get-log "$C" --log-id=$page --log-len=512
done
host_disconnect
all_right
