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

// echo answers each connection with what it is told.
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

// say sends a text and reads as much back.
func say(conn net.Conn, text string) error {
	if _, err := io.WriteString(conn, text); err != nil {
		return err
	}
	heard := make([]byte, len(text))
	if _, err := io.ReadFull(conn, heard); err != nil {
		return err
	}
	if string(heard) != text {
		return errors.New("heard " + string(heard))
	}
	return nil
}

// lost says whether an error is that of a connection that was reset.
func lost(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func TestAWireCarries(t *testing.T) {
	w := newWire(t, echo(t))
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if w.Connections() != 1 {
		t.Errorf("%d connections", w.Connections())
	}
	// One side says that it is done, and still hears the rest.
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

func TestACutResets(t *testing.T) {
	w := newWire(t, echo(t))
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	w.Cut()
	if err := say(conn, "again"); !lost(err) {
		t.Errorf("it is %v", err)
	}
	if err := say(dial(t, w), "a new one"); err != nil {
		t.Error(err)
	}
}

func TestSilence(t *testing.T) {
	w := newWire(t, echo(t))
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	w.Silence()
	late := dial(t, w) // is accepted
	answers := make(chan error, 2)
	go func() { answers <- say(conn, "one that was there") }()
	go func() { answers <- say(late, "one that came") }()
	for w.Connections() < 2 { // it was accepted, and the wire knows it
		runtime.Gosched()
	}
	select {
	case err := <-answers:
		t.Errorf("somebody heard something: %v", err)
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

func TestSilentConnectionsCanBeCut(t *testing.T) {
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
		t.Errorf("it is %v", err)
	}
}

func TestAbandonedConnections(t *testing.T) {
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
		t.Errorf("somebody heard something: %v", err)
	default:
	}
	if err := w.Heal(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRefusal(t *testing.T) {
	w := newWire(t, echo(t))
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	w.Refuse()
	w.Refuse() // again
	if err := say(conn, "again"); !lost(err) {
		t.Errorf("it is %v", err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "tcp://")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new one: %v", err)
	}
	if runtime.GOOS == "linux" { // where ports can be held
		if other, err := net.Listen("tcp", strings.TrimPrefix(w.URL, "tcp://")); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("somebody else has got its address: %v, %v", other, err)
		}
	}
	if err := w.Heal(); err != nil {
		t.Fatal(err)
	}
	if err := say(dial(t, w), "at the same address"); err != nil {
		t.Error(err)
	}
}

func TestResetAfter(t *testing.T) {
	w := newWire(t, echo(t))
	w.ResetAfter(7)
	conn := dial(t, w)
	if err := say(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	if err := say(conn, "again"); !lost(err) {
		t.Errorf("it is %v", err)
	}
	if err := w.Heal(); err != nil {
		t.Fatal(err)
	}
	conn = dial(t, w)
	if err := errors.Join(say(conn, "hello"), say(conn, "again")); err != nil {
		t.Error(err)
	}
}

func TestDelay(t *testing.T) {
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
		t.Errorf("it is %v", err)
	}
}

func TestAWireToNothing(t *testing.T) {
	if _, err := faults.NewWire("https://a b"); err == nil {
		t.Error("no address, and yet a wire")
	}
	w := newWire(t, "tcp://127.0.0.1:1")
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "tcp://"))
	if err == nil {
		err = say(conn, "anybody?")
	}
	if !lost(err) {
		t.Errorf("it is %v", err)
	}
	w.Close()
	if err := w.Heal(); err != nil { // it stays closed
		t.Error(err)
	}
	if _, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "tcp://")); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after its end: %v", err)
	}
	next, err := net.Listen("tcp", strings.TrimPrefix(w.URL, "tcp://"))
	if err != nil {
		t.Fatalf("its address is not free: %v", err)
	}
	_ = next.Close()
}

func TestAWireCarriesTLSToAServerThatIsTrusted(t *testing.T) {
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
