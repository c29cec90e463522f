package faults_test

import (
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fleet-hub/fleet/e2e/framework/faults"
)

// echo starts a server that returns what it receives.
func echo(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return "tcp://" + listener.Addr().String()
}

func newWire(t *testing.T, server string) *faults.Wire {
	t.Helper()
	w, err := faults.NewWire(server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

func dial(t *testing.T, w *faults.Wire) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// say sends a text and reads it back.
func say(conn net.Conn, text string) error {
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	heard := make([]byte, len(text))
	if _, err := io.ReadFull(conn, heard); err != nil {
		return err
	}
	if string(heard) != text {
		return errors.New("received " + string(heard))
	}
	return nil
}

// lost reports whether an error is that of a reset connection.
func lost(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func TestWire_ForwardsBothDirections(t *testing.T) {
	w := newWire(t, echo(t))
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if w.Connections() != 1 {
		t.Errorf("%d connections", w.Connections())
	}
	// One side closes its writing direction and still receives the rest.
	if _, err := io.WriteString(conn, "the rest"); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(conn); err != nil || string(rest) != "the rest" {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestCut_ResetsConnections(t *testing.T) {
	w := newWire(t, echo(t))
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	w.Cut()
	if err := say(conn, "again"); !lost(err) {
		t.Errorf("got error %v", err)
	}
	if err := say(dial(t, w), "a new one"); err != nil {
		t.Error(err)
	}
}

func TestSilence_HoldsBytesUntilHeal(t *testing.T) {
	w := newWire(t, echo(t))
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	w.Silence()
	late := dial(t, w) // the connection is accepted
	answers := make(chan error, 2)
	go func() { answers <- say(conn, "one that was there") }()
	go func() { answers <- say(late, "one that came") }()
	for w.Connections() < 2 { // until the wire has registered it
		runtime.Gosched()
	}
	select {
	case err := <-answers:
		t.Errorf("want no data, got %v", err)
	default:
	}
	if err := w.Heal(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

func TestCutOfSilentConnections_ResetsThem(t *testing.T) {
	w := newWire(t, echo(t))
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	w.Silence()
	ended := make(chan error)
	go func() { ended <- say(conn, "anybody?") }()
	w.Cut()
	if err := <-ended; !lost(err) {
		t.Errorf("got error %v", err)
	}
}

func TestAbandon_StopsOnlyExistingConnections(t *testing.T) {
	w := newWire(t, echo(t))
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	w.Abandon()
	ended := make(chan error)
	go func() { ended <- say(conn, "anybody?") }()
	if err := say(dial(t, w), "a new one"); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Errorf("want no data, got %v", err)
	default:
	}
	if err := w.Heal(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRefuse_RejectsNewConnections(t *testing.T) {
	w := newWire(t, echo(t))
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	w.Refuse()
	w.Refuse() // a second Refuse has no effect
	if err := say(conn, "again"); !lost(err) {
		t.Errorf("got error %v", err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "tcp://")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("new connection: %v", err)
	}
	if runtime.GOOS == "linux" { // only Linux can hold ports
		if other, err := net.Listen("tcp", strings.TrimPrefix(w.URL, "tcp://")); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("another listener got the address: %v, %v", other, err)
		}
	}
	if err := w.Heal(); err != nil {
		t.Fatal(err)
	}
	if err := say(dial(t, w), "at the same address"); err != nil {
		t.Error(err)
	}
}

func TestResetAfter_LimitsTheBytes(t *testing.T) {
	w := newWire(t, echo(t))
	w.ResetAfter(7)
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := say(conn, "again"); !lost(err) {
		t.Errorf("got error %v", err)
	}
	if err := w.Heal(); err != nil {
		t.Fatal(err)
	}
	conn = dial(t, w)
	if err := errors.Join(say(conn, "hello"), say(conn, "again")); err != nil {
		t.Error(err)
	}
}

func TestDelay_DelaysBytes(t *testing.T) {
	w := newWire(t, echo(t))
	w.Delay(time.Millisecond)
	if err := say(dial(t, w), "hello"); err != nil {
		t.Error(err)
	}
	w.Delay(time.Hour)
	conn := dial(t, w)
	ended := make(chan error)
	go func() { ended <- say(conn, "too late") }()
	w.Close()
	if err := <-ended; !lost(err) {
		t.Errorf("got error %v", err)
	}
}

func TestNewWireWithoutServer_RefusesConnections(t *testing.T) {
	if _, err := faults.NewWire("https://a b"); err == nil {
		t.Error("want an error for an invalid address")
	}
	w := newWire(t, "tcp://127.0.0.1:1")
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "tcp://"))
	if err == nil {
		err = say(conn, "anybody?")
	}
	if !lost(err) {
		t.Errorf("got error %v", err)
	}
	w.Close()
	if err := w.Heal(); err != nil { // Heal does not open a closed wire
		t.Error(err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "tcp://")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after Close: %v", err)
	}
	next, err := net.Listen("tcp", strings.TrimPrefix(w.URL, "tcp://"))
	if err != nil {
		t.Fatalf("the address is not free: %v", err)
	}
	_ = next.Close()
}

func TestWire_ForwardsTLSUnchanged(t *testing.T) {
	s := newServer(t)
	w := newWire(t, s.URL)
	c, err := kubernetes.NewForConfig(&rest.Config{Host: w.URL, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca()}, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := get(t.Context(), c); err != nil {
		t.Error(err)
	}
}
