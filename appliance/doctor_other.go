//go:build !linux

package appliance

import "context"

func clockSynced() (synced, known bool) { return false, false }

func (d *doctor) limits(context.Context) {}
