// The store that says which index is live: nobody reads or writes it by a key. The service reads it, and writes it only
// where it promotes itself.
targetScope = 'resourceGroup'

@description('Name of the App Configuration store.')
param appConfigurationName string

@description('Region of the store.')
param location string

@description('Object id of the identity of the service.')
param principalId string

@description('Whether it may write.')
param writes bool

@description('Whether the store is reached by private endpoints only.')
param isPrivate bool

var appConfigurationDataReader = '516239f1-63e1-4d78-a4de-a74fb236a071'
var appConfigurationDataOwner = '5ae67dd6-50cb-40e7-96ff-dc2bfa4b606b'
var role = writes ? appConfigurationDataOwner : appConfigurationDataReader

resource store 'Microsoft.AppConfiguration/configurationStores@2023-03-01' = {
  name: appConfigurationName
  location: location
  sku: {
    name: 'standard'
  }
  properties: {
    disableLocalAuth: true
    enablePurgeProtection: true
    publicNetworkAccess: isPrivate ? 'Disabled' : 'Enabled'
  }
}

resource keys 'Microsoft.Authorization/roleAssignments@2022-04-01' = {
  name: guid(store.id, principalId, role)
  scope: store
  properties: {
    roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role)
    principalId: principalId
    principalType: 'ServicePrincipal'
  }
}
