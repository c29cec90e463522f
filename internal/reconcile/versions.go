package reconcile

import (
	"hash/fnv"
	"slices"
)

// Versions returns a hash of the versions of owner's cached children. It changes when a child is added, changed or
// deleted. If neither it nor the desired state has changed, the caller can skip Apply, which compares every field.
func (s *Set) Versions(owner Owner) (uint64, error) {
	var versions []string
	for _, kind := range s.kinds {
		members, err := kind.members(s.Hash(owner))
		if err != nil {
			return 0, err
		}
		for _, member := range members {
			versions = append(versions, memberKey(kind, member)+" "+string(member.GetUID())+" "+member.GetResourceVersion())
		}
	}
	slices.Sort(versions)
	sum := fnv.New64a()
	for _, version := range versions {
		_, _ = sum.Write([]byte(version + "\n")) // writing to a hash never fails
	}
	return sum.Sum64(), nil
}
