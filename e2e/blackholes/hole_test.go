package blackholes

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/fleet-hub/fleet/dev/plane/pki"
	"github.com/fleet-hub/fleet/e2e/framework"
)

// hole is a server that accepts connections and never answers.
type hole struct {
	listener net.Listener

	mu    sync.Mutex
	count asks
}

// asks counts the connections of a hole.
type asks struct {
	// Open is the number of open connections, Most their maximum at the same time, Ended the number of closed
	// ones.
	Open, Most, Ended int
}

func openHole() (*hole, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &hole{listener: listener}
	go h.serve()
	return h, nil
}

func (h *hole) serve() {
	for {
		connection, err := h.listener.Accept()
		if err != nil {
			return // closed
		}
		h.counted(func(a *asks) {
			if a.Open++; a.Open > a.Most {
				a.Most = max(a.Most, min(a.Open, established(connection.LocalAddr())))
			}
		})
		go func() {
			_, _ = io.Copy(io.Discard, connection) // until whoever asks has given up, however that comes
			_ = connection.Close()                 // the other side has
			h.counted(func(a *asks) { a.Open--; a.Ended++ })
		}()
	}
}

// established returns the number of connections to an address that the other side has not closed. The kernel
// notices a close earlier than this process does, and new connections may have been opened by then. While
// connections change, the kernel's table may miss some of them.
func established(to net.Addr) int {
	const isEstablished = "01"
	tcp, ok := to.(*net.TCPAddr)
	table, err := os.Open("/proc/net/tcp")
	if err != nil || !ok {
		return 0 // TestHole_CountsConnections sees to it that this is not so
	}
	defer table.Close()
	port, from := fmt.Sprintf(":%04X", tcp.Port), map[string]bool{}
	for lines := bufio.NewScanner(table); lines.Scan(); {
		columns := strings.Fields(lines.Text()) // sl, local_address, rem_address, st
		if len(columns) > 3 && strings.HasSuffix(columns[1], port) && columns[3] == isEstablished {
			from[columns[2]] = true
		}
	}
	return len(from)
}

func TestHole_CountsConnections(t *testing.T) {
	g := NewWithT(t)
	h, err := openHole()
	g.Expect(err).NotTo(HaveOccurred())
	defer h.listener.Close()
	var all []net.Conn
	for range 3 {
		connection, err := net.Dial("tcp", h.listener.Addr().String())
		g.Expect(err).NotTo(HaveOccurred())
		defer connection.Close()
		all = append(all, connection)
	}
	expect := func(there int) {
		t.Helper()
		g.Eventually(func() int { return established(h.listener.Addr()) }).WithTimeout(framework.Patience).Should(Equal(there))
	}
	expect(3)
	g.Eventually(h.asked).WithTimeout(framework.Patience).Should(HaveField("Open", 3))
	g.Expect(all[0].Close()).To(Succeed())
	expect(2)
	g.Eventually(h.asked).WithTimeout(framework.Patience).Should(And(HaveField("Open", 2), HaveField("Ended", 1)))
}

func (h *hole) counted(what func(*asks)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	what(&h.count)
}

// asked returns the current counts.
func (h *hole) asked() (now asks) {
	h.counted(func(a *asks) { now = *a })
	return now
}

// kubeconfig returns a kubeconfig for the hole.
func (h *hole) kubeconfig(name string) ([]byte, error) {
	return pki.Access{Name: name, URL: fmt.Sprintf("https://%s", h.listener.Addr()), Token: "none"}.Kubeconfig()
}
