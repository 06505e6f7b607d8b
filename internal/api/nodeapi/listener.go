package nodeapi

import (
	"net"
	"net/netip"
	"sync"
)

// boundedListener accepts no more connections than there may be, in all and from
// one address. A connection beyond that is closed at once: the others are served.
type boundedListener struct {
	net.Listener
	limits Limits

	mu   sync.Mutex
	all  int
	byIP map[netip.Addr]int // only addresses that have one
}

// sendBuffer is how much the kernel holds for a client that does not read. It is
// enough for megabytes a second over any distance within a cluster.
const sendBuffer = 256 << 10

func newBoundedListener(l net.Listener, limits Limits) *boundedListener {
	return &boundedListener{Listener: l, limits: limits, byIP: map[netip.Addr]int{}}
}

// Accept returns the next connection that may be.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		ip := addressOf(conn.RemoteAddr().String())
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(sendBuffer) // the kernel's own choice is only more memory
		}
		if l.acquire(ip) {
			return &countedConn{Conn: conn, done: sync.OnceFunc(func() { l.release(ip) })}, nil
		}
		_ = conn.Close()
	}
}

func (l *boundedListener) acquire(ip netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all >= l.limits.Connections || l.byIP[ip] >= l.limits.ConnectionsPerIP {
		return false
	}
	l.all++
	l.byIP[ip]++
	return true
}

func (l *boundedListener) release(ip netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.byIP[ip]--; l.byIP[ip] == 0 {
		delete(l.byIP, ip)
	}
}

// countedConn is counted until it is closed.
type countedConn struct {
	net.Conn
	done func()
}

func (c *countedConn) Close() error {
	defer c.done()
	return c.Conn.Close()
}

// addressOf is the address of a client, without its port. It is not valid if there
// is none, as on a unix socket.
func addressOf(remote string) netip.Addr {
	p, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap()
}
