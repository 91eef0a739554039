#: what nvme-cli asks a controller is answered
#: core
target_up ram:64
host_connect --nr-io-queues 1
show() {
    say "nvme $*"
    nvme "$@" >"$OUT/answer" 2>&1 || { cat "$OUT/answer"; fail "nvme $*"; }
    cat "$OUT/answer"
}
show id-ctrl "/dev/$CTRL"
expect_match "^subnqn[[:space:]]*: $NQN" "$(cat "$OUT/answer")" "id-ctrl"
expect_match "^cntrltype[[:space:]]*: 1" "$(cat "$OUT/answer")" "id-ctrl"
show id-ns "$DEV"
expect_match "^nsze[[:space:]]*: 0x" "$(cat "$OUT/answer")" "id-ns"
show ns-descs "$DEV"
expect_match "^(uuid|nguid|eui64) *:" "$(cat "$OUT/answer")" "ns-descs"
show list-ns "/dev/$CTRL"
expect_match "0x1" "$(cat "$OUT/answer")" "list-ns"
show list
expect_match "$DEV" "$(cat "$OUT/answer")" "list"
show list-subsys
expect_match "live" "$(cat "$OUT/answer")" "list-subsys"
show smart-log "/dev/$CTRL"
expect_match "^critical_warning[[:space:]]*: 0" "$(cat "$OUT/answer")" "smart-log"
show error-log "/dev/$CTRL"
# Some versions of nvme-cli print this one only to a terminal: look at the page itself.
show effects-log "/dev/$CTRL"
nvme get-log "/dev/$CTRL" --log-id=5 --log-len=4096 --raw-binary >"$OUT/effects"
supported() { (($(od -An -tu4 -j$(($1 * 4)) -N4 "$OUT/effects") & 1)) || fail "effects-log: $2 is not marked as supported"; }
supported 0x02 "Get Log Page"
supported 0x06 Identify
supported 0x18 "Keep Alive"
supported $((256 + 1)) Write
supported $((256 + 2)) Read
for property in 0x0 0x8 0x14 0x1c; do show get-property --offset=$property "/dev/$CTRL"; done
expect_match "Ready +\(RDY\): Yes" "$(nvme get-property --offset=0x1c -H "/dev/$CTRL")" "controller status"
# It reads properties that a fabrics controller has not, and takes Invalid Field
# for that, but not the More bit that newer versions of the kernel's target add.
if nvme show-regs -H "/dev/$CTRL" >"$OUT/answer" 2>&1; then
    expect_match "cap[[:space:]]*:|Controller Capabilities" "$(cat "$OUT/answer")" "show-regs"
else
    [ "$TARGET" = nvmet ] || fail "nvme show-regs: $(cat "$OUT/answer")"
fi
show get-feature -f 7 "/dev/$CTRL"
show get-feature -f 0xf "/dev/$CTRL"
if nvme admin-passthru "/dev/$CTRL" --opcode=0xc7 >"$OUT/answer" 2>&1; then
    fail "an unknown admin command succeeded"
fi
expect_match "INVALID_OPCODE|Invalid Command Opcode" "$(cat "$OUT/answer")" "unknown admin command"
host_disconnect
