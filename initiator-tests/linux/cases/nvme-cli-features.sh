#: nvme-cli gets every feature id with every select, and sets those that can be set
#: targets nvmfd
#: seconds 200
. "$WORK/guest/nvme-cli.sh"
target_up loop:64
host_connect --nr-io-queues 1
C=/dev/$CTRL

# get ID SELECT: with what the feature needs.
get() {
    local more=()
    case $1 in
    0x05) more=(-n 1) ;;
    0x0e) more=(-l 8) ;;
    0x16) more=(-l 512) ;;
    0x81) more=(-l 16 --cdw11=1) ;;
    esac
    # Supported capabilities come without data.
    [ "$2" != 3 ] || [ "$1" = 0x05 ] || more=()
    arguments=(get-feature "$C" -f "$1" -s "$2" "${more[@]}")
}
offered=" 0x01 0x02 0x04 0x05 0x06 0x07 0x0a 0x0b 0x0e 0x0f 0x16 0x19 0x81 "
for number in {1..31} {124..133} 192 255; do
    id=$(printf 0x%02x "$number")
    for select in 0 1 2 3; do
        get "$id" $select
        case $offered in
        *" $id "*) ask "[Cc]urrent|[Dd]efault|[Ss]aved|[Cc]apabilit|value|get-feature" "${arguments[@]}" ;;
        *) deny $INVALID_FIELD "${arguments[@]}" ;;
        esac
    done
done

# now ID: the current value.
now() {
    get "$1" 0
    nvme "${arguments[@]}" 2>&1 | sed -n 's/.*[Cc]urrent value: *\(0x\)\?\([0-9a-fA-F]*\).*/\2/p' | sed 's/^0*\(.\)/\1/'
}
# set ID VALUE [more...]: it can be set, and is what it was set to.
set_to() {
    local id=$1 value=$2
    shift 2
    ask "value|set-feature" set-feature "$C" -f "$id" --value="$value" "$@"
    expect "$((value))" "$((16#$(now "$id")))" "feature $id"
}
set_to 0x01 0x04030207
set_to 0x04 0x155
set_to 0x05 0x12 -n 1
set_to 0x06 0
set_to 0x06 1
set_to 0x0a 1
events=$((16#$(now 0x0b)))
(((events & 0x100) != 0)) || fail "the host did not ask for namespace events: $events"
set_to 0x0b 0x11f
set_to 0x0f 20000
deny $INVALID_FIELD set-feature "$C" -f 0x02 --value=1
deny $INVALID_FIELD set-feature "$C" -f 0x0b --value=0x200
deny $NOT_SAVEABLE set-feature "$C" -f 0x01 --value=1 --save
deny $INVALID_FIELD set-feature "$C" -f 0x03 --value=1
expect_match "hostid|^ *0000:.*5c a1 ab 1e" "$(nvme get-feature "$C" -f 0x81 -l 16 --cdw11=1)" "host identifier"

# A reset brings the defaults back.
nvme reset "$C"
until_true 20 host_is live || fail "not live after reset: $(host_state)"
get 0x01 1
default=$(nvme "${arguments[@]}" 2>&1 | sed -n 's/.*[Dd]efault value: *\(0x\)\?\([0-9a-fA-F]*\).*/\2/p' | sed 's/^0*\(.\)/\1/')
expect "$default" "$(now 0x01)" "arbitration after a reset"
host_disconnect
all_right
