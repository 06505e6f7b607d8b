package roots

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"berth/internal/host/proc"
)

func TestNamesFollowTheRoot(t *testing.T) {
	a, b := NamesOf("/srv/a", "/srv/a", Names{}, false), NamesOf("/srv/b", "/srv/b", Names{}, false)
	if a.ID == b.ID || a.CgroupRoot == b.CgroupRoot || a.Bridge == b.Bridge {
		t.Errorf("two roots have the same names: %+v, %+v", a, b)
	}
	for _, n := range []Names{a, b} {
		if n.CgroupRoot != "/berth-"+n.ID || n.Bridge != "berth-"+n.ID || len(n.Bridge) > 15 || n.Shared || n.PodCIDR.IsValid() {
			t.Errorf("got %+v", n)
		}
	}
	if again := NamesOf("/srv/a/", "/srv/a", Names{}, false); again != a {
		t.Errorf("the same root has other names: %+v, %+v", a, again)
	}
}

func TestTheDefaultRootKeepsItsNames(t *testing.T) {
	for _, inUse := range []bool{false, true} {
		got := NamesOf(Default, Default, Names{}, inUse)
		if got.CgroupRoot != "/berth" || got.Bridge != "berth0" || got.PodCIDR.String() != "10.88.0.0/16" || got.Shared {
			t.Errorf("got %+v", got)
		}
	}
}

func TestNamesStay(t *testing.T) {
	before := Names{Root: "/data/a", ID: ID("/srv/a"), CgroupRoot: "/berth-x", Bridge: "berth-x", PodCIDR: netip.MustParsePrefix("10.81.0.0/22")}
	if got := NamesOf("/srv/a", "/data/a", before, false); got != before {
		t.Errorf("got %+v, want %+v", got, before)
	}
	if got := NamesOf("/data/a", "/data/a", before, false); got != before {
		t.Errorf("by another path: got %+v, want %+v", got, before)
	}
	// but a copy of the root is another root
	if got := NamesOf("/data/copy", "/data/copy", before, true); got.ID == before.ID || got.CgroupRoot == before.CgroupRoot || got.PodCIDR.IsValid() {
		t.Errorf("a copy has the names of what it was copied from: %+v", got)
	}
}

func TestSharedNamesStayWhilePodsAreLeft(t *testing.T) {
	shared := SharedNames("/srv/a", "/srv/a")
	if !shared.Shared || shared.CgroupRoot != "/berth" || shared.Bridge != "berth0" || shared.PodCIDR.String() != "10.88.0.0/16" {
		t.Errorf("got %+v", shared)
	}
	if got := NamesOf("/srv/a", "/srv/a", shared, true); got != shared {
		t.Errorf("pods run under %+v, and the names become %+v", shared, got)
	}
	if got := NamesOf("/srv/a", "/srv/a", shared, false); got != NamesOf("/srv/a", "/srv/a", Names{}, false) {
		t.Errorf("nothing is left of pods, and the names are %+v", got)
	}
}

func TestPodCIDRIsNoneThatIsTaken(t *testing.T) {
	id := ID("/srv/a")
	first, err := choosePodCIDR(id, nil)
	if err != nil || first.Bits() != 22 || !podCIDRRange.Contains(first.Addr()) || first != first.Masked() {
		t.Fatalf("got %s, %v", first, err)
	}
	if again, err := choosePodCIDR(id, nil); err != nil || again != first {
		t.Errorf("got %s and then %s, %v", first, again, err)
	}
	// each one more is beside all others, until there are none
	taken := []netip.Prefix{netip.MustParsePrefix("10.88.0.0/16"), netip.MustParsePrefix("fd00::/8")}
	for range 512 {
		next, err := choosePodCIDR(id, taken)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range taken {
			if next.Overlaps(other) {
				t.Fatalf("%s overlaps with %s", next, other)
			}
		}
		taken = append(taken, next)
	}
	if _, err := choosePodCIDR(id, taken); err == nil || !strings.Contains(err.Error(), "--pod-cidr") {
		t.Errorf("got %v", err)
	}
	if _, err := choosePodCIDR(id, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}); err == nil {
		t.Error("a network within one that is taken was chosen")
	}
}

func claimOf(root, cgroup, logs, bridge, cidr string) Claim {
	return Claim{
		Root: root, Resolved: root, ID: ID(root), CgroupRoot: cgroup, LogsDir: logs, NetNS: 1,
		Network: &Network{Bridge: bridge, PodCIDR: netip.MustParsePrefix(cidr)},
		Ports:   []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:10248")},
	}
}

func TestWhatTwoRootsCanNotBothHave(t *testing.T) {
	other := claimOf("/srv/other", "/berth-o", "/srv/other/log", "berth-o", "10.80.0.0/22")
	other.Agent = Process{PID: 4711}
	fine := claimOf("/srv/mine", "/berth-m", "/srv/mine/log", "berth-m", "10.81.0.0/22")
	fine.Ports = nil
	cases := map[string]struct {
		change func(*Claim)
		want   string // "" if both can be
		kind   kind
	}{
		"nothing":                          {func(*Claim) {}, "", 0},
		"the same cgroup root":             {func(c *Claim) { c.CgroupRoot = "/berth-o" }, "cgroup root /berth-o belongs to root directory /srv/other", kindCgroup},
		"a cgroup root within":             {func(c *Claim) { c.CgroupRoot = "/berth-o/a" }, "lies within cgroup root /berth-o", kindCgroup},
		"a cgroup root around":             {func(c *Claim) { c.CgroupRoot, other.CgroupRoot = "/a", "/a/b" }, "cgroup root /a lies", kindCgroup},
		"a cgroup root of a longer name":   {func(c *Claim) { c.CgroupRoot = "/berth-oo" }, "", 0},
		"the same folder of logs":          {func(c *Claim) { c.LogsDir = other.LogsDir }, "folder of logs /srv/other/log", kindLogs},
		"the same bridge":                  {func(c *Claim) { c.Network.Bridge = "berth-o" }, "bridge berth-o belongs to", kindNetwork},
		"overlapping pod CIDRs":            {func(c *Claim) { c.Network.PodCIDR = netip.MustParsePrefix("10.80.0.0/16") }, "pod CIDR 10.80.0.0/16 overlaps with 10.80.0.0/22 of", kindNetwork},
		"the same in another namespace":    {func(c *Claim) { c.Network.Bridge, c.NetNS = "berth-o", 2 }, "", 0},
		"no network of its own":            {func(c *Claim) { c.Network = nil }, "", 0},
		"a port":                           {func(c *Claim) { c.Ports = other.Ports }, "port 127.0.0.1:10248 is in use by root directory /srv/other (agent with pid 4711)", kindPort},
		"a port of all addresses":          {func(c *Claim) { c.Ports = []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:10248")} }, "port 0.0.0.0:10248", kindPort},
		"a port of another address":        {func(c *Claim) { c.Ports = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.2:10248")} }, "", 0},
		"a root within the other":          {func(c *Claim) { c.Resolved = "/srv/other/mine" }, "lies within, or around, root directory /srv/other", kindRoot},
		"a root around the other":          {func(c *Claim) { c.Resolved = "/srv" }, "lies within, or around, root directory /srv/other", kindRoot},
		"a root whose path begins like it": {func(c *Claim) { c.Resolved = "/srv/other2" }, "", 0},
		"the same id":                      {func(c *Claim) { c.ID = other.ID }, "the id " + other.ID, kindRoot},
	}
	for name, c := range cases {
		mine, network, kept := fine, *fine.Network, other.CgroupRoot
		mine.Network = &network
		c.change(&mine)
		got := mine.conflicts(other, true)
		other.CgroupRoot = kept
		switch {
		case c.want == "" && len(got) > 0:
			t.Errorf("%s: got %v", name, got)
		case c.want != "" && (len(got) != 1 || got[c.kind] == nil || !strings.Contains(got[c.kind].Error(), c.want) || !strings.Contains(got[c.kind].Error(), "'berth down --root-dir /srv/other'")):
			t.Errorf("%s: got %v, want %q", name, got, c.want)
		}
	}
	// a port is free once its agent is gone
	mine := fine
	mine.Ports = other.Ports
	if got := mine.conflicts(other, false); len(got) > 0 {
		t.Errorf("the agent of the other is gone: got %v", got)
	}
}

// testMachine is a registry whose machine is made up.
type testMachine struct {
	Registry
	running  map[int]bool
	occupied map[string]bool
	networks []netip.Prefix
}

func newTestMachine(t *testing.T) *testMachine {
	t.Helper()
	m := &testMachine{running: map[int]bool{}, occupied: map[string]bool{}}
	m.Registry = Registry{
		Dir:      filepath.Join(t.TempDir(), "berth"),
		Occupied: func(cgroup string) (bool, error) { return m.occupied[cgroup], nil },
		Networks: func() ([]netip.Prefix, error) { return m.networks, nil },
		Running:  func(p Process) bool { return m.running[p.PID] },
	}
	return m
}

// claim returns the claim of a new root directory, whose pod CIDR is still to be chosen.
func (m *testMachine) claim(t *testing.T) Claim {
	t.Helper()
	root := t.TempDir()
	names := NamesOf(root, root, Names{}, false)
	return Claim{
		Root: root, Resolved: root, ID: names.ID, CgroupRoot: names.CgroupRoot, LogsDir: filepath.Join(root, "log", "pods"),
		NetNS: 1, Network: &Network{Bridge: names.Bridge},
	}
}

func (m *testMachine) mustAcquire(t *testing.T, c Claim) Owner {
	t.Helper()
	o, err := m.Acquire(c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestRootsSideBySideWithoutFlags(t *testing.T) {
	m := newTestMachine(t)
	m.networks = []netip.Prefix{netip.MustParsePrefix("10.80.0.0/14")}
	var seen []netip.Prefix
	for range 20 {
		o := m.mustAcquire(t, m.claim(t))
		for _, other := range append(seen, m.networks...) {
			if o.PodCIDR().Overlaps(other) {
				t.Errorf("%s overlaps with %s", o.PodCIDR(), other)
			}
		}
		seen = append(seen, o.PodCIDR())
	}
}

func TestAClaimIsReleased(t *testing.T) {
	m := newTestMachine(t)
	mine := m.claim(t)
	theirs := m.claim(t)
	theirs.CgroupRoot = mine.CgroupRoot
	o := m.mustAcquire(t, mine)
	var conflict *ConflictError
	if _, err := m.Acquire(theirs); !errors.As(err, &conflict) || conflict.Other.Root != mine.Root {
		t.Fatalf("got %v", err)
	}
	if got, err := m.Find(theirs.Resolved); err != nil || got != nil {
		t.Errorf("what was refused is recorded: %v, %v", got, err)
	}
	if got, err := m.Find(mine.Resolved); err != nil || got == nil || got.CgroupRoot != mine.CgroupRoot || got.Network.PodCIDR != o.PodCIDR() {
		t.Errorf("got %v, %v", got, err)
	}
	if again := m.mustAcquire(t, mine); again.ID() != o.ID() { // a claim does not conflict with itself
		t.Errorf("got %v", again)
	}
	for range 2 {
		if err := m.Release(o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(m.Dir); !os.IsNotExist(err) {
		t.Errorf("the folder of no claims is left: %v", err)
	}
	m.mustAcquire(t, theirs)
}

func TestHostPortsOfOtherRootsAreKnown(t *testing.T) {
	m := newTestMachine(t)
	apart := m.claim(t)
	apart.NetNS = 2
	mine, theirs, elsewhere := m.mustAcquire(t, m.claim(t)), m.mustAcquire(t, m.claim(t)), m.mustAcquire(t, apart)
	expect := func(of Owner, want map[string][]HostPort) {
		t.Helper()
		if got, err := m.ForeignPorts(of); err != nil || !maps.EqualFunc(got, want, slices.Equal) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	record := func(of Owner, ports ...HostPort) {
		t.Helper()
		if err := m.RecordPorts(of, ports); err != nil {
			t.Fatal(err)
		}
	}
	expect(mine, nil)
	record(mine, HostPort{Port: 1, Protocol: "TCP", Pod: "a/b"})
	expect(mine, nil) // its own

	// when others record theirs, then those of the same network namespace are known
	web := HostPort{Port: 80, Protocol: "TCP", IP: netip.MustParseAddr("10.0.0.1"), Pod: "shop/web"}
	record(theirs, web)
	record(elsewhere, HostPort{Port: 81, Protocol: "TCP", Pod: "shop/other"})
	expect(mine, map[string][]HostPort{theirs.Root(): {web}})
	record(theirs)
	expect(mine, map[string][]HostPort{theirs.Root(): nil})

	// when a root directory is gone, and nothing of it runs, then so are its ports
	record(theirs, web)
	if err := os.Rename(theirs.Root(), theirs.Root()+"-away"); err != nil {
		t.Fatal(err)
	}
	expect(mine, nil)
	if err := os.Rename(theirs.Root()+"-away", theirs.Root()); err != nil {
		t.Fatal(err)
	}
	expect(mine, map[string][]HostPort{theirs.Root(): {web}})

	// when a root gives back what it has, then nothing is left of its ports
	for _, o := range []Owner{theirs, elsewhere} {
		if err := m.Release(o); err != nil {
			t.Fatal(err)
		}
	}
	expect(mine, nil)
	if left, err := filepath.Glob(filepath.Join(m.Dir, "*")); err != nil || len(left) != 2 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestAStaleClaimIsDropped(t *testing.T) {
	m := newTestMachine(t)
	gone := m.claim(t)
	gone.Agent = Process{PID: 7}
	m.mustAcquire(t, gone)
	mine := m.claim(t)
	mine.CgroupRoot = gone.CgroupRoot
	refused := func(why string) {
		t.Helper()
		if _, err := m.Acquire(mine); err == nil {
			t.Errorf("%s: the claim was dropped", why)
		}
	}
	refused("the root directory is there")
	if err := os.Remove(gone.Root); err != nil {
		t.Fatal(err)
	}
	m.running[7] = true
	refused("the agent runs")
	m.running[7], m.occupied[gone.CgroupRoot] = false, true
	refused("pods run")
	m.occupied[gone.CgroupRoot] = false
	known := m.Occupied
	m.Occupied = func(string) (bool, error) { return false, errors.New("can't be read") }
	refused("nobody knows whether pods run")
	m.Occupied = known
	m.mustAcquire(t, mine)
	if got, err := m.Find(gone.Resolved); err != nil || got != nil {
		t.Errorf("it is still recorded: %v, %v", got, err)
	}
}

func TestWhatIsSharedIsNotOwned(t *testing.T) {
	m := newTestMachine(t)
	theirs := m.claim(t)
	theirs.Network.PodCIDR = netip.MustParsePrefix("10.88.0.0/16")
	m.mustAcquire(t, theirs)

	// given a root with the names of another one, as an older version made them
	mine := m.claim(t)
	mine.CgroupRoot, mine.Network, mine.LogsDir = theirs.CgroupRoot, theirs.Network, theirs.LogsDir
	o, lacking, err := m.AcquireFree(mine)
	if err != nil || len(lacking) != 3 {
		t.Fatalf("got %v, %v", lacking, err)
	}
	if _, alone := o.Bridge(); alone || o.AllCgroups() || o.LogsDir() != "" {
		t.Errorf("it owns what another root does: %+v", o)
	}
	if got, err := m.Find(mine.Resolved); err != nil || got != nil {
		t.Errorf("it is recorded: %v, %v", got, err)
	}
	// and a claim without conflicts gets all
	o, lacking, err = m.AcquireFree(m.claim(t))
	if _, alone := o.Bridge(); err != nil || len(lacking) > 0 || !alone || !o.AllCgroups() || o.LogsDir() == "" {
		t.Errorf("got %+v, %v, %v", o, lacking, err)
	}
	// and a root within another root is refused: its files can't be distinguished
	within := m.claim(t)
	within.Resolved = filepath.Join(theirs.Resolved, "within")
	if o, _, err := m.AcquireFree(within); err == nil {
		t.Errorf("got %+v", o)
	}
	// but names that another root may have, too, are not owned
	shared := m.claim(t)
	shared.SharedCgroup, shared.SharedBridge = true, true
	if o = m.mustAcquire(t, shared); o.AllCgroups() {
		t.Errorf("got %+v", o)
	}
	if _, alone := o.Bridge(); alone {
		t.Errorf("got %+v", o)
	}
}

func TestOnlyCgroupsBelowItsOwnAreOwned(t *testing.T) {
	m := newTestMachine(t)
	o := m.mustAcquire(t, m.claim(t))
	if err := o.OwnsCgroup(o.CgroupRoot() + "/pod1"); err != nil {
		t.Error(err)
	}
	for _, path := range []string{o.CgroupRoot(), "/", "", "/berth/pod1", o.CgroupRoot() + "2/pod1", o.CgroupRoot() + "/../berth/pod1"} {
		if o.OwnsCgroup(path) == nil {
			t.Errorf("%q is owned", path)
		}
	}
	if (Owner{}).OwnsCgroup("/berth/pod1") == nil || (Owner{}).AllCgroups() {
		t.Error("nobody owns something")
	}
}

func TestOnlyOneAgentAtATimeIsBesideTheOthers(t *testing.T) {
	m := newTestMachine(t)
	a, b := m.claim(t), m.claim(t)
	ownerA, ownerB := m.mustAcquire(t, a), m.mustAcquire(t, b)
	var inside atomic.Int32
	var group sync.WaitGroup
	for range 4 {
		for owner, other := range map[*Owner]Claim{&ownerA: b, &ownerB: a} {
			group.Go(func() {
				err := m.WithOtherRoots(*owner, func(roots []string) error {
					defer inside.Add(-1)
					if n := inside.Add(1); n != 1 || !slices.Equal(roots, []string{other.Resolved}) {
						t.Errorf("%d agents are beside %v", n, roots)
					}
					runtime.Gosched()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
	}
	group.Wait()
	// and where the folder can't be made, it goes on
	called := false
	m.Dir = filepath.Join(t.TempDir(), "berth")
	if err := os.Symlink("nowhere", m.Dir); err != nil {
		t.Fatal(err)
	}
	if err := m.WithOtherRoots(ownerA, func([]string) error { called = true; return nil }); err != nil || !called {
		t.Errorf("it was called: %t, %v", called, err)
	}
}

func TestUsersOfARuntime(t *testing.T) {
	m := newTestMachine(t)
	mine, user, other := m.claim(t), m.claim(t), m.claim(t)
	mine.Runtime, user.Runtime, other.Runtime = "unix:///mine", "unix:///mine", "unix:///other"
	m.mustAcquire(t, mine)
	m.mustAcquire(t, user)
	m.mustAcquire(t, other)
	if got, err := m.Users(mine.Resolved, "unix:///mine"); err != nil || len(got) != 1 || got[0].Root != user.Root {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestAClaimThatCanNotBeWrittenCountsAllTheSame(t *testing.T) {
	m := newTestMachine(t)
	if err := os.WriteFile(m.Dir, nil, 0o600); err != nil { // a file in its place, as good as a full disk
		t.Fatal(err)
	}
	m.Dir = filepath.Join(m.Dir, "x")
	_, err := m.Find("/x")
	if err == nil {
		t.Fatal("a folder that can't be read is not an empty one")
	}
	m = newTestMachine(t)
	c := m.claim(t)
	if err := os.MkdirAll(filepath.Join(m.file(c.ID)+".new", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	o, err := m.Acquire(c)
	var unrecorded *NotRecordedError
	if !errors.As(err, &unrecorded) || o.CgroupRoot() != c.CgroupRoot || !o.PodCIDR().IsValid() {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestClaimsAtTheSameTime(t *testing.T) {
	m := newTestMachine(t)
	claims := make([]Claim, 8)
	for i := range claims {
		claims[i] = m.claim(t)
		claims[i].CgroupRoot = "/the-one"
	}
	var wg sync.WaitGroup
	won := make([]bool, len(claims))
	for i, c := range claims {
		wg.Go(func() {
			_, err := m.Acquire(c)
			won[i] = err == nil
		})
	}
	wg.Wait()
	count := 0
	for _, w := range won {
		if w {
			count++
		}
	}
	if count != 1 {
		t.Errorf("%d roots have the same cgroup", count)
	}
}

func TestClaimsAreReadAndWrittenByOneAtATime(t *testing.T) {
	m := newTestMachine(t)
	asked := false
	m.Networks = func() ([]netip.Prefix, error) { // between the look at others and the record
		asked = true
		if l, err := m.tryLock(); err == nil {
			l.release()
			t.Error("another process could claim the same")
		}
		return nil, nil
	}
	m.mustAcquire(t, m.claim(t))
	if l, err := m.tryLock(); err != nil || !asked {
		t.Errorf("the lock is left: %v, %t", err, asked)
	} else {
		l.release()
	}
}

func TestTheSameDirectoryByAnotherPathIsTheSameRoot(t *testing.T) {
	m := newTestMachine(t)
	c := m.claim(t)
	m.mustAcquire(t, c)
	c.Root, c.ID = "/somewhere/else", ID("/somewhere/else")
	m.mustAcquire(t, c)
	if files, err := os.ReadDir(m.Dir); err != nil || len(files) != 1 {
		t.Errorf("got %v, %v", files, err)
	}
}

func TestThisProcessRuns(t *testing.T) {
	p := ThisProcess()
	if !ProcessRuns(p) || p.Start == 0 {
		t.Errorf("got %+v", p)
	}
	if ProcessRuns(Process{PID: p.PID, Start: p.Start + 1}) || ProcessRuns(Process{}) {
		t.Error("somebody else runs as well")
	}
}

func TestAnAgentThatWasKilledDoesNotRun(t *testing.T) {
	// given a process that has ended, and whose parent has not asked for its exit code
	child := exec.Command("cat")
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Wait() })
	p := Process{PID: child.Process.Pid}
	if p.Start, err = (proc.Table{Dir: "/proc"}).Started(p.PID); err != nil || !ProcessRuns(p) {
		t.Fatalf("it does not run yet: %v", err)
	}
	_ = in.Close()
	if err := unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if ProcessRuns(p) {
		t.Error("it has ended, and is said to run")
	}
}
