// Reading which index is live. The right to change it belongs to the pipeline's promoting identity.
targetScope = 'resourceGroup'

@description('Name of the App Configuration store.')
param appConfigurationName string

@description('Object id of the identity that reads.')
param principalId string

var appConfigurationDataReader = '516239f1-63e1-4d78-a4de-a74fb236a071'

resource store 'Microsoft.AppConfiguration/configurationStores@2023-03-01' existing = {
  name: appConfigurationName
}

resource keys 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(store.id, principalId, appConfigurationDataReader)
  scope: store
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', appConfigurationDataReader)
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
