package source

import "time"

const (
	quietInterval       = 50 * time.Millisecond  // without an event: then a burst of events is over
	burstTimeout        = time.Second            // after this time a burst that goes on is scanned all the same
	recheckInterval     = 150 * time.Millisecond // after this time a file that is still missing counts as removed
	folderRetryInterval = time.Second            // between two scans while the folder can't be read

	settleTime        = time.Second     // since the last write, where the kernel does not tell whether a file is open
	maxWriterInterval = 2 * time.Second // between two scans while a file is open for writing
	writerTimeout     = 5 * time.Second // after this time a file that is open for writing is shown as refused

	firstScanTimeout = 10 * time.Second // after this time without a file read, the folder counts as unreadable
)

// schedule computes when the folder is scanned next: when a burst of events is over, soon
// after a scan that asked for a recheck, and after each interval.
type schedule struct {
	interval time.Duration
	next     time.Time
	burst    time.Time // when the present burst began; zero if there is none
}

// event records an event in the folder. It may also put off a scan that was due: in the
// middle of a burst, files are half written.
func (p *schedule) event(now time.Time) {
	if p.burst.IsZero() {
		p.burst = now
	}
	p.next = now.Add(quietInterval)
	if latest := p.burst.Add(burstTimeout); p.next.After(latest) {
		p.next = latest
	}
}

// scanned records a scan. If again is not zero, the next one is due that soon.
func (p *schedule) scanned(now time.Time, again time.Duration) {
	p.burst = time.Time{}
	p.next = now.Add(p.interval)
	if again > 0 && again < p.interval {
		p.next = now.Add(again)
	}
}
