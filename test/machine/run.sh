#!/bin/bash
# What the machine does once it is up: the tests of test/real that are meant for it.
# Those of the first boot end with one that switches it off; the second boot is for the
# one that looks at what came of that, and for what needs SELinux. The third has cgroups of version 1.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root BERTH_TEST_PROGRAMS=/berth/programs
cd /berth/test/real || exit

# try FOLDER NAMES...: run these tests of a folder.
try() {
	local IFS='|' folder=$1
	shift
	(cd "$folder" && "./$folder.test" -test.v -test.timeout 15m -test.parallel 2 -test.run "^($*)\$")
}

if [[ -d /sys/fs/cgroup/memory ]]; then
	try pods TestPodsInSlicesOfSystemd # in version 1
elif [[ -d /berth/lasting ]]; then
	try core TestTheMachineCameBack
	try pods TestSELinux TestSELinuxMount
else
	# These show that cgroups are as good in version 2.
	try pods TestResourcesInTheKernel TestDownEndsWhatIsLeftInACgroup TestUsersOfItsOwn \
		TestHugePages TestWhoGoesFirstWhenMemoryRunsOut TestAppArmor TestNFS TestPodsInSlicesOfSystemd \
		TestAPodWhoseCgroupVanishedComesBack TestCgroupsOfDaemons
	try host TestDownLeavesNothing &
	try telemetry TestUsageIsReported
	wait
	try cli TestDoctorIsContentWithThisMachine
	# Its pods take what they can get.
	try app TestHostilePods
	try app TestDebianPackage
	# The clock jumps for all.
	try core TestTheClockJumps
	try core TestTheMachineGoesDown
fi
systemctl poweroff
