package nodeapi

import (
	"net"
	"net/netip"
	"sync"
)

// boundedListener limits the number of connections, in all and per address. A connection beyond a
// limit is closed at once: the others are served.
type boundedListener struct {
	net.Listener
	limits Limits

	mu   sync.Mutex
	all  int
	byIP map[netip.Addr]int // only addresses with a connection
}

// sendBuffer is the size of the kernel's send buffer of a connection. It is enough for megabytes a
// second over any distance within a cluster.
const sendBuffer = 256 << 10

func newBoundedListener(l net.Listener, limits Limits) *boundedListener {
	return &boundedListener{Listener: l, limits: limits, byIP: map[netip.Addr]int{}}
}

// Accept returns the next connection within the limits.
func (l *boundedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		ip := addressOf(conn.RemoteAddr().String())
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetWriteBuffer(sendBuffer) // by default, the buffer grows, which only costs memory
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

// countedConn is a connection that calls done when it is closed.
type countedConn struct {
	net.Conn
	done func()
}

func (c *countedConn) Close() error {
	defer c.done()
	return c.Conn.Close()
}

// addressOf returns the address of a client, without its port. It is not valid for a client on a unix
// socket, which has none.
func addressOf(remote string) netip.Addr {
	p, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap()
}
