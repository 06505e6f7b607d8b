package status

// writePhase is how far the object of a pod at the API server is from what the agent asks for:
//
//	          write              deletion
//	synced ──────────▶ dirty ───────────────▶ lastStatus
//	  │    ◀──────────                           │   ▲
//	  │      patched                     patched │   │ write
//	  │               deletion                   ▼   │
//	  └─────────────────────────────────────▶ deleting
//
// An object that the API server no longer has is absent (from synced and dirty) or deleted (from
// lastStatus and deleting). There is one way back: an API server that was restored from a backup has
// the object again. It is synced then, or deleting if its deletion was asked for.
type writePhase int

const (
	synced     writePhase = iota // no request is due
	dirty                        // the status is to be patched
	lastStatus                   // the status is to be patched, then the object deleted
	deleting                     // the object is to be deleted
	absent                       // the API server has no such object
	deleted                      // the same, and its deletion was asked for
)

func (p writePhase) String() string {
	return [...]string{"synced", "dirty", "lastStatus", "deleting", "absent", "deleted"}[p]
}

// isDirty reports whether the status is to be patched.
func (p writePhase) isDirty() bool { return p == dirty || p == lastStatus }

// isDeleting reports whether the object is to be deleted.
func (p writePhase) isDeleting() bool { return p == lastStatus || p == deleting }

// hasWork reports whether a request is due.
func (p writePhase) hasWork() bool { return p.isDirty() || p.isDeleting() }

// isGone reports whether the API server no longer has the object.
func (p writePhase) isGone() bool { return p == absent || p == deleted }

// writeState is the state of one pod in the writer. It is a value: on returns the next one.
type writeState struct {
	phase writePhase
	// urgent says that the next request goes ahead of those of other pods.
	urgent bool
	// forgotten says that no source has the pod any more. The writer drops the pod once it is deleted.
	forgotten bool
}

// writeEvent is something that happens to a pod in the writer. Requests come from the agent,
// results from the goroutines that talk to the API server.
type writeEvent interface{ isWriteEvent() }

type (
	// write asks for a status that the API server does not have.
	write struct{ urgent bool }
	// deletion asks that the object be deleted.
	deletion struct{}
	// forget says that no source has the pod any more.
	forget struct{}
	// seen says that the API server has the object in a newer version.
	seen struct{}
	// begun says that a goroutine makes the requests that are due.
	begun struct{}
	// patched says that the API server has the newest status, or refuses it.
	patched struct{}
	// failed says that a request is to be made again.
	failed struct{}
	// gone says that the object is deleted, or was not there.
	gone struct{}
)

func (write) isWriteEvent()    {}
func (deletion) isWriteEvent() {}
func (forget) isWriteEvent()   {}
func (seen) isWriteEvent()     {}
func (begun) isWriteEvent()    {}
func (patched) isWriteEvent()  {}
func (failed) isWriteEvent()   {}
func (gone) isWriteEvent()     {}

// on returns the state after an event. Events that come too late change nothing.
func (s writeState) on(e writeEvent) writeState {
	switch e := e.(type) {
	case write:
		s = s.move(synced, dirty).move(deleting, lastStatus)
		s.urgent = s.urgent || e.urgent
	case deletion:
		s.urgent = s.urgent || s.phase == synced || s.phase == dirty
		s = s.move(synced, deleting).move(dirty, lastStatus)
	case forget:
		s.forgotten = s.forgotten || s.phase.isDeleting()
	case seen:
		s = s.move(absent, synced).move(deleted, deleting)
	case begun:
		s.urgent = false
	case patched:
		s = s.move(dirty, synced).move(lastStatus, deleting)
	case failed:
		s.urgent = true // the pod waits since before the others
	case gone:
		s = s.move(synced, absent).move(dirty, absent).move(lastStatus, deleted).move(deleting, deleted)
	}
	return s
}

// move leads from one phase to another, and leaves a pod in any other phase where it is.
func (s writeState) move(from, to writePhase) writeState {
	if s.phase == from {
		s.phase = to
	}
	return s
}
