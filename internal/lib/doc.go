// Package lib groups the types and tools that every other group may use. Packages of lib
// import nothing of berth but each other.
//
//	pod         the vocabulary of the road: UIDs, snapshots, updates, observations, causes
//	downward    values of the downward API (fieldRef, resourceFieldRef)
//	volumekind  the table of the kinds of volumes
//	cgroupname  names and paths of cgroups, by cgroup driver
//	podfile     bounded reads of files that containers can write
//	atomicfile  files that are replaced as a whole
//	statefile   state files: written as soon as the disk allows, read as far as they go
//	salvage     state files of which some entries are damaged
//	run         named goroutines with an owner and an end
//	backoff     pauses between the attempts of an operation that keeps failing
//	keyedmutex  a mutex for each key
//	queue       a priority queue whose members can leave
//	logging     the logger of a process, which never blocks
//	logonce     which failures of a retried operation are logged
//	nearest     the name that a misspelt one was meant to be
//	printable   untrusted text on one line
//	progress    rate and remaining time of a transfer
//	secret      settings that are never printed
//	table       aligned columns for terminals
//	leaktest    tests that leave goroutines behind fail
//	doctest     documents that are made from the tables of the code
//
// Start reading at pod.
package lib
