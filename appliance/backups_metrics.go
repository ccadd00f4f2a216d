package appliance

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	backupAt    = prometheus.NewDesc("hearth_backup_last_timestamp_seconds", "When the newest backup was made, in Unix time; absent without one.", nil, nil)
	backupSize  = prometheus.NewDesc("hearth_backup_last_bytes", "Size of the newest backup.", nil, nil)
	backupCount = prometheus.NewDesc("hearth_backup_files", "Backups in the folder of backups.", nil, nil)
	backupFault = prometheus.NewDesc("hearth_backup_failed", "1 if the last scheduled backup could not be made.", nil, nil)
	drillAt     = prometheus.NewDesc("hearth_backup_drill_timestamp_seconds", "When a backup was last tried, in Unix time; absent before the first time.", nil, nil)
	drillOK     = prometheus.NewDesc("hearth_backup_drill_ok", "1 if the backup that was tried last can be restored.", nil, nil)
)

// backupCollector tells of backups at each scrape.
type backupCollector struct{ a *Appliance }

// Describe implements prometheus.Collector.
func (b *backupCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{backupAt, backupSize, backupCount, backupFault, drillAt, drillOK} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (b *backupCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	gauge := func(d *prometheus.Desc, v float64) { ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	c := b.a.control()
	if list, err := listBackups(ctx, c); err == nil {
		gauge(backupCount, float64(len(list)))
		if len(list) > 0 {
			gauge(backupAt, float64(list[0].Created.Unix()))
			gauge(backupSize, float64(list[0].Bytes))
		}
	}
	if r := keptRun[backupRun](ctx, c, "scheduled"); r != nil {
		gauge(backupFault, truth(r.Error != ""))
	}
	if d := keptRun[drillResult](ctx, c, "drill"); d != nil {
		gauge(drillAt, float64(d.At.Unix()))
		gauge(drillOK, truth(d.OK))
	}
}
