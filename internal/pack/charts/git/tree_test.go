package git

import (
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/fleet-hub/fleet/internal/pack/charts/unpack"
)

// A tree with ten entries that are all the same tree describes ten times as many folders as that one.
func TestGitTreeWithBillionsOfFolders_IsRefused(t *testing.T) {
	store := memory.NewStorage()
	add := func(tree *object.Tree) plumbing.Hash {
		encoded := store.NewEncodedObject()
		if err := tree.Encode(encoded); err != nil {
			t.Fatal(err)
		}
		hash, err := store.SetEncodedObject(encoded)
		if err != nil {
			t.Fatal(err)
		}
		return hash
	}
	hash := add(&object.Tree{})
	for range 10 {
		tree := &object.Tree{}
		for name := 'a'; name < 'k'; name++ {
			tree.Entries = append(tree.Entries, object.TreeEntry{Name: string(name), Mode: filemode.Dir, Hash: hash})
		}
		hash = add(tree)
	}
	tree, err := object.GetTree(store, hash)
	if err != nil {
		t.Fatal(err)
	}
	into, err := unpack.NewSink(t.TempDir(), unpack.Limits{Received: 1 << 20, Unpacked: 16 << 10, Memory: 1 << 20, Entries: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer into.Close()
	if err := writeTree(t.Context(), tree, "", into); err == nil || !strings.Contains(err.Error(), "more than 10 files and folders") {
		t.Errorf("error %v", err)
	}
}
