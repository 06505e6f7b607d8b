#!/bin/bash
# What the machine does once it is up: the tests of test/real that are meant for it.
# Those of the first boot end with one that switches it off; the second boot is for the
# one that looks at what came of that, and for what needs SELinux.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root BERTH_TEST_PROGRAMS=/berth/programs
cd /berth/test/real || exit

# try NAMES...: run these tests.
try() {
	local IFS='|'
	./real.test -test.v -test.timeout 15m -test.parallel 2 -test.run "^($*)\$"
}

if [[ -d /berth/lasting ]]; then
	try TestTheMachineCameBack
	try TestSELinux
else
	# These show that cgroups are as good in version 2.
	try TestResourcesInTheKernel TestDownEndsWhatIsLeftInACgroup TestDownLeavesNothing TestUsageIsTold TestUsersOfItsOwn \
		TestHugePages TestWhoGoesFirstWhenMemoryRunsOut TestAppArmor TestNFS TestDoctorIsContentWithThisMachine
	# The clock jumps for all.
	try TestTheClockJumps
	try TestTheMachineGoesDown
fi
systemctl poweroff
