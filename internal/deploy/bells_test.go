package deploy

import (
	"testing"
)

func TestBells(t *testing.T) {
	bells := newBells()
	bells.ring("a") // nobody listens
	heardA, stopA := bells.listen("a", "b")
	heardB, stopB := bells.listen("b")
	has := func(heard <-chan struct{}) bool {
		select {
		case <-heard:
			return true
		default:
			return false
		}
	}
	bells.ring("a")
	bells.ring("a")
	if !has(heardA) || has(heardA) || has(heardB) {
		t.Error("a bell that rings twice is heard once, and by who listens to it")
	}
	bells.ring("b")
	if !has(heardA) || !has(heardB) {
		t.Error("a bell is heard by all who listen to it")
	}
	stopA()
	stopA()
	bells.ring("b")
	if has(heardA) || !has(heardB) {
		t.Error("who has stopped hears nothing")
	}
	stopB()
	if len(bells.listeners) != 0 {
		t.Errorf("left: %v", bells.listeners)
	}
}
