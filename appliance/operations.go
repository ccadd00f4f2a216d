package appliance

// operations is everything that can be done to the appliance.
func operations() []anyOperation {
	return []anyOperation{
		opKeyCreate, opKeyList, opKeyShow, opKeyUpdate, opKeyRotate, opKeyDisable, opKeyEnable, opKeyRevoke, opKeySetup,
		opIdentityList,
		opLedgerList, opLedgerShow, opLedgerCheck, opLedgerResolve, opLedgerAudit,
		opBackupCreate, opBackupWrite, opBackupList, opBackupStatus, opBackupDownload, opBackupVerify, opBackupDelete, opBackupRestore, opBackupCancel,
		opTenantList, opTenantCreate, opTenantUpdate, opTenantPause, opTenantDelete, opBudgetList, opSpendReport,
		opUpstreamList, opUpstreamProbe, opUpstreamReset, opRouteList, opRouteUpdate, opEvidenceList, opEvidenceShow, opEvidenceAdd, opEvidenceDelete,
		opAbout, opAboutLicences, opAboutSBOM, opAboutLicencesText, opDiagnosticsPreview, opDiagnosticsBundle,
		opLedgerExport, opLedgerPosition, opLedgerReconcile, opLedgerReconcileApply,
		opConfigGet, opConfigCheck, opConfigApply, opConfigSet, opConfigHistory, opConfigShow, opConfigDiff,
		opConfigRollback, opConfigConfirm, opConfigKeys, opReload,
		opAccountMe, opAccountList, opAccountShow, opAccountCreate, opAccountInvite, opAccountUpdate, opAccountDelete, opAccountPassword,
		opPasskeyList, opPasskeyBegin, opPasskeyFinish, opPasskeyRename, opPasskeyRemove,
		opSessionList, opSessionRevoke, opTokenList, opTokenCreate, opTokenRevoke,
		opModels,
		opModelList, opModelShow, opModelAdd, opModelRemove, opModelLoad, opModelUnload, opModelWarm, opModelPlan,
		opUploadBegin, opUploadChunk, opUploadFinish, opUploadList, opUploadDrop,
		opJobList, opJobShow, opJobCancel,
		opDoctor,
		opDeviceList, opDeviceDoctor, opDeviceBench,
		opLogState, opLogLevel, opLogTail,
		opSeries, opOverview, opObserveFile, opObserveFiles,
		opContentList, opContentShow, opContentPurge,
		opCertShow, opCertRenew, opCertEvents, opCertRoot, opCertDownload, opCertRotate, opCertRetire,
	}
}
