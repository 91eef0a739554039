#: the scripts that make RDMA devices and set their type of service: twice, and back
#: machines qemu
#: targets nvmet
script=$WORK/kernel-setup/soft-roce.sh
ip link add extra0 type dummy
ip link set extra0 up
if "$script" --check extra0; then fail "--check found a device before there was one"; fi
"$script" extra0
"$script" extra0
"$script" --check extra0
expect_match "link rxe_extra0/1 .*netdev extra0" "$(rdma link)" "rdma link"
"$script" --undo extra0
if rdma link show rxe_extra0/1; then fail "--undo left the device"; fi
if "$script" nothing0; then fail "an interface that is not there was accepted"; fi
if "$script" lo; then fail "the loopback interface was accepted"; fi

folder=$(dirname "$script")
"$script" extra0
if "$folder/roce.sh" --check rxe_extra0 104; then fail "a type of service was found that was not set"; fi
"$folder/roce.sh" rxe_extra0 104
"$folder/roce.sh" rxe_extra0 104
expect "104" "$(cat /sys/kernel/config/rdma_cm/rxe_extra0/ports/1/default_roce_tos)" "type of service"
"$folder/roce.sh" --undo rxe_extra0
if "$folder/roce.sh" --check rxe_extra0 104; then fail "--undo left the type of service"; fi
"$script" --undo extra0
