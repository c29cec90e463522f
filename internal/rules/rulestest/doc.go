// Package rulestest has what tests of several rules share: sample objects, golden tables and the recorded objects of
// Rancher Fleet.
package rulestest
