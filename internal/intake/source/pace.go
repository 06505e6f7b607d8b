package source

import "time"

const (
	quiet    = 50 * time.Millisecond  // without an event, after which a burst is over
	patience = time.Second            // for a burst that does not end
	doubt    = 150 * time.Millisecond // before a file that vanished is believed to be gone
	retry    = time.Second            // while the folder is gone

	settle         = time.Second     // of a file, where nobody can tell whether it is being written
	writerLook     = 2 * time.Second // at most, between two looks at a file that is open for writing
	writerPatience = 5 * time.Second // before such a file is shown as refused

	firstLook = 10 * time.Second // may take that long before the folder counts as unreadable
)

// pace says when to look at the folder next. A look is due when a burst of
// events is over, when a doubt is to be settled, and every so often in any case.
type pace struct {
	every time.Duration
	next  time.Time
	burst time.Time // when the present burst began; zero if there is none
}

// event notes that something happened in the folder. It may also put off a look
// that was planned: in the middle of a burst, files are half written.
func (p *pace) event(now time.Time) {
	if p.burst.IsZero() {
		p.burst = now
	}
	p.next = now.Add(quiet)
	if latest := p.burst.Add(patience); p.next.After(latest) {
		p.next = latest
	}
}

// looked notes a look. If again is not zero, the next one is due that soon.
func (p *pace) looked(now time.Time, again time.Duration) {
	p.burst = time.Time{}
	p.next = now.Add(p.every)
	if again > 0 && again < p.every {
		p.next = now.Add(again)
	}
}
