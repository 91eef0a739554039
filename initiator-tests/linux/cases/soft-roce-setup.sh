#: kernel-setup/soft-roce.sh makes a device, is content the second time, and takes it back
#: machines qemu
#: targets nvmet
script=$PACKAGE/../../kernel-setup/soft-roce.sh
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
