package source

import "time"

const (
	quietInterval       = 50 * time.Millisecond  // without an event, after which a burst is over
	burstTimeout        = time.Second            // for a burst that does not end
	recheckInterval     = 150 * time.Millisecond // before a file that vanished is believed to be gone
	folderRetryInterval = time.Second            // while the folder is gone

	settleTime        = time.Second     // of a file, where nobody can tell whether it is being written
	maxWriterInterval = 2 * time.Second // at most, between two looks at a file that is open for writing
	writerTimeout     = 5 * time.Second // before such a file is shown as refused

	firstScanTimeout = 10 * time.Second // may take that long before the folder counts as unreadable
)

// schedule says when to look at the folder next. A look is due when a burst of
// events is over, when a doubt is to be settled, and every so often in any case.
type schedule struct {
	interval time.Duration
	next     time.Time
	burst    time.Time // when the present burst began; zero if there is none
}

// event notes that something happened in the folder. It may also put off a look
// that was planned: in the middle of a burst, files are half written.
func (p *schedule) event(now time.Time) {
	if p.burst.IsZero() {
		p.burst = now
	}
	p.next = now.Add(quietInterval)
	if latest := p.burst.Add(burstTimeout); p.next.After(latest) {
		p.next = latest
	}
}

// scanned notes a look. If again is not zero, the next one is due that soon.
func (p *schedule) scanned(now time.Time, again time.Duration) {
	p.burst = time.Time{}
	p.next = now.Add(p.interval)
	if again > 0 && again < p.interval {
		p.next = now.Add(again)
	}
}
