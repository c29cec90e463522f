package ports

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

func TestFree_ReturnsDifferentPorts(t *testing.T) {
	found, err := Free(50)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range found {
		if port < first || port > last || seen[port] {
			t.Errorf("port %d", port)
		}
		seen[port] = true
	}
	if len(seen) != 50 {
		t.Errorf("%d ports", len(seen))
	}
	if _, err := Free(last); !errors.Is(err, ErrNone) {
		t.Errorf("asking for more ports than exist: %v", err)
	}
}

func TestPortInUse_IsNotFree(t *testing.T) {
	tests := map[string]func(t *testing.T) int{
		"process listens": func(t *testing.T) int {
			listener, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = listener.Close() })
			return listener.Addr().(*net.TCPAddr).Port
		},
		"process holds the port": func(t *testing.T) int { return held(t).Number() },
		"process holds the port and listens": func(t *testing.T) int {
			p := held(t)
			listen(t, p)
			return p.Number()
		},
	}
	for name, taken := range tests {
		t.Run(name, func(t *testing.T) {
			port := taken(t)
			if isFree(port) {
				t.Error("want the port not to be free")
			}
			if _, twice := open(port, false); twice {
				t.Error("want that the port cannot be held")
			}
		})
	}
}

// held returns a port that is held until the test ends.
func held(t *testing.T) *Port {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux holds ports")
	}
	p, err := Hold()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Release)
	return p
}

func listen(t *testing.T, p *Port) net.Listener {
	t.Helper()
	listener, err := p.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// expectHeld checks a held port on which no server listens.
func expectHeld(t *testing.T, p *Port) {
	t.Helper()
	if conn, err := net.Dial("tcp", p.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting: want a refused connection, got %v, %v", conn, err)
	}
	if other, err := net.Listen("tcp", p.Address()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listening: want an error, got %v, %v", other, err)
	}
	if other, err := net.Listen("tcp4", net.JoinHostPort("0.0.0.0", port(t, p.Address()))); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listening on all addresses: want an error, got %v, %v", other, err)
	}
}

func port(t *testing.T, address string) string {
	t.Helper()
	_, number, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	return number
}

func TestHeldPort_IsReservedUntilRelease(t *testing.T) {
	p := held(t)
	if p.Number() < first || p.Number() > last {
		t.Errorf("port %d", p.Number())
	}
	expectHeld(t, p)

	server := listen(t, p)
	_, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: p.Number()}}).Dial("tcp", server.Addr().String())
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("connecting from the port: %v", err)
	}

	p.Release()
	p.Release() // a second Release has no effect
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("tcp", p.Address())
	if err != nil {
		t.Fatalf("listening on the released port: %v", err)
	}
	_ = other.Close()
}

// TestHeldPort_SurvivesServerRestarts restarts a server that leaves connections behind: open ones, and ones that
// the server closed first, which stay in TIME_WAIT.
func TestHeldPort_SurvivesServerRestarts(t *testing.T) {
	p := held(t)
	for range 5 {
		server := listen(t, p)
		for range 4 {
			ours, theirs := connect(t, server)
			t.Cleanup(func() { _, _ = ours.Close(), theirs.Close() })
		}
		ours, theirs := connect(t, server)
		_, _ = theirs.Close(), ours.Close()
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		expectHeld(t, p)
	}
}

// connect returns both ends of a connection over which data was sent.
func connect(t *testing.T, server net.Listener) (ours, theirs net.Conn) {
	t.Helper()
	ours, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err = server.Accept(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(theirs, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(ours, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

func TestConcurrentHold_ReturnsDifferentPorts(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux holds ports")
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	holders := map[int]int{}
	for range 4 {
		all.Go(func() {
			for number := first; number < first+200; number++ {
				if file, ok := open(number, false); ok {
					t.Cleanup(func() { _ = file.Close() })
					mu.Lock()
					holders[number]++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	for number, count := range holders {
		if count > 1 {
			t.Errorf("port %d is held %d times", number, count)
		}
	}
	if len(holders) == 0 {
		t.Error("want at least one held port")
	}
}

func TestHoldNumber_FailsIfThePortIsUsed(t *testing.T) {
	first := held(t)
	if _, err := HoldNumber(first.Number()); !errors.Is(err, ErrInUse) {
		t.Errorf("holding a held port: %v", err)
	}
	second, err := Rejoin(first.Number())
	if err != nil {
		t.Fatalf("rejoining a held port: %v", err)
	}
	first.Release()
	expectHeld(t, second)
	second.Release()
	again, err := HoldNumber(second.Number())
	if err != nil {
		t.Fatalf("holding a released port: %v", err)
	}
	again.Release()
}

func TestRejoin_FailsIfAnotherProgramListens(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux holds ports")
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	if _, err := Rejoin(listener.Addr().(*net.TCPAddr).Port); !errors.Is(err, ErrInUse) {
		t.Errorf("want that the port is in use, got %v", err)
	}
}
