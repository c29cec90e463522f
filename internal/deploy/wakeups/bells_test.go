package wakeups

import (
	"testing"
)

func TestBells(t *testing.T) {
	bells := NewEvents()
	bells.Ring("a") // nobody listens
	heardA, stopA := bells.Listen("a", "b")
	heardB, stopB := bells.Listen("b")
	has := func(heard <-chan struct{}) bool {
		select {
		case <-heard:
			return true
		default:
			return false
		}
	}
	bells.Ring("a")
	bells.Ring("a")
	if !has(heardA) || has(heardA) || has(heardB) {
		t.Error("a bell that rings twice is heard once, and by who listens to it")
	}
	bells.Ring("b")
	if !has(heardA) || !has(heardB) {
		t.Error("a bell is heard by all who listen to it")
	}
	stopA()
	stopA()
	bells.Ring("b")
	if has(heardA) || !has(heardB) {
		t.Error("who has stopped hears nothing")
	}
	stopB()
	if len(bells.Listeners) != 0 {
		t.Errorf("left: %v", bells.Listeners)
	}
}
