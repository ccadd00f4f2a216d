// Package appliance assembles Hearth: it opens the parts in order and closes
// them in reverse, owns the one path that a request takes (call.go), and gives
// it its commands, certificates, telemetry and status. It is the only package
// that knows all the others.
package appliance
