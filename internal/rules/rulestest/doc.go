// Package rulestest helps to test several rules: sample objects, golden tables and the recorded objects of Rancher
// Fleet.
package rulestest
